package simulated

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/proxyard/proxyard/providers"
)

// Identity says in what a planted machine is like ours.
type Identity int

// The identities of a foreign machine.
const (
	// SameName has the name that ours would get, and a UUID of its own.
	SameName Identity = iota
	// SameUUID has the UUID too, and no tag of ours.
	SameUUID
)

// PlantForeign puts a running machine that is not ours where m would go, and returns a look at everything of it.
func (f *Faults) PlantForeign(m providers.Machine, as Identity) (look func() string) {
	id := machineID(f.p.opt.ClusterID, m.Tag.UID, m.Host)
	alien := &machine{id: id, name: machineName(id), disk: true, defined: true, state: providers.StateRunning}
	if as == SameName {
		alien.id = uuid.NewSHA1(id, []byte("foreign"))
	}
	_ = f.p.world.do(func() error {
		f.p.world.host(m.Host).machines[alien.id] = alien
		return nil
	})
	return func() string {
		f.p.world.mu.Lock()
		defer f.p.world.mu.Unlock()
		now := f.p.world.host(m.Host).machines[alien.id]
		if now != alien {
			return fmt.Sprintf("replaced or gone: %v", now != nil)
		}
		return fmt.Sprintf("%s %s %v %s", now.id, now.name, now.leftovers(), now.state)
	}
}

// Leftovers lists every part on m's host that was made for m's owner, as the host's own listing would name it.
func (f *Faults) Leftovers(m providers.Machine) []string {
	f.p.world.mu.Lock()
	defer f.p.world.mu.Unlock()
	var out []string
	for _, x := range f.p.world.host(m.Host).machines {
		if x.tag == m.Tag {
			out = append(out, x.leftovers()...)
		}
	}
	return out
}
