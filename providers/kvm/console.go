package kvm

import (
	"bytes"
	"context"
	"strings"

	"github.com/proxyard/proxyard/providers"
)

// ConsoleTail reads the end of the console log, which lies in the pool. Libvirt learns of the file, and of its size, when the
// pool is refreshed.
func (p *Provider) ConsoleTail(ctx context.Context, id providers.ProviderID, limit int) (string, error) {
	h, m, err := p.locate(id)
	if err != nil {
		return "", err
	}
	if err := h.answers(ctx); err != nil {
		return "", err
	}
	unlock, err := h.pool.lock(ctx, h.spec.StoragePool)
	if err != nil {
		return "", err
	}
	err = h.refreshPool(ctx, h.spec.StoragePool)
	unlock()
	if err != nil {
		return "", err
	}
	vol, _, err := h.volume(ctx, p.cluster.Console(m))
	if err != nil {
		if providers.KindOf(err) == providers.NotFound {
			return "", nil
		}
		return "", err
	}
	v, err := h.describe(ctx, vol)
	if err != nil {
		return "", err
	}
	size := max(v.CapacityBytes, v.PhysicalBytes)
	if size == 0 {
		return "", nil
	}
	var out bytes.Buffer
	from := max(0, size-int64(limit))
	if err := h.conn.Download(ctx, vol, &out, from, size-from); err != nil {
		return "", err
	}
	return strings.ToValidUTF8(out.String(), ""), nil
}
