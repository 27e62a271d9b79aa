package proxy

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// login is a user of the proxy.
type login struct{ name, password string }

// memory is what a Reconciler remembers of each Proxy to spare others: the API server's Secrets and the guests. Losing it
// costs one more question. The work queue hands a Proxy to one worker at a time, so only the map needs the lock.
type memory struct {
	mu    sync.Mutex
	byUID map[types.UID]*remembered
}

type remembered struct {
	login    *login
	loginAt  time.Time
	guestAt  time.Time
	guestFor time.Duration
	// consoleAt is when the console was last asked for.
	consoleAt time.Time
}

func (m *memory) of(uid types.UID) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byUID == nil {
		m.byUID = map[types.UID]*remembered{}
	}
	one, ok := m.byUID[uid]
	if !ok {
		one = &remembered{}
		m.byUID[uid] = one
	}
	return one
}

func (m *memory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byUID, uid)
}
