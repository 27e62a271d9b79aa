package simulated

import (
	"context"

	"github.com/proxyard/proxyard/providers"
)

// Boot implements providers.GuestInspector.
func (p *Provider) Boot(ctx context.Context, id providers.ProviderID) (providers.BootReport, error) {
	var r providers.BootReport
	err := p.inspect(ctx, OpGuest, id, func(_ *hostState, m *machine) { r = m.report() })
	return r, err
}

func (m *machine) report() providers.BootReport {
	switch {
	case m.state != providers.StateRunning:
		return providers.BootReport{CloudInit: providers.CloudInitUnknown, Reason: "NotRunning", Message: "the machine does not run"}
	case m.agentSilent:
		return providers.BootReport{CloudInit: providers.CloudInitUnknown, Reason: "AgentSilent", Message: "the guest agent never connected"}
	case m.boot != nil:
		return *m.boot
	case !m.booted:
		return providers.BootReport{CloudInit: providers.CloudInitRunning}
	}
	return providers.BootReport{CloudInit: providers.CloudInitDone}
}

// ConsoleTail implements providers.ConsoleReader.
func (p *Provider) ConsoleTail(ctx context.Context, id providers.ProviderID, limit int) (string, error) {
	var tail string
	err := p.inspect(ctx, OpGuest, id, func(_ *hostState, m *machine) {
		tail = string(m.console[max(0, len(m.console)-max(0, limit)):])
	})
	return tail, err
}
