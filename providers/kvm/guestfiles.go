package kvm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/proxyard/proxyard/providers"
	"github.com/proxyard/proxyard/providers/kvm/conn"
)

// The files that cloud-init keeps (its documentation, "boot status"): the second exists from the first stage on, the first
// when all stages are over. Reading them needs no guest-exec, which many guests forbid.
const (
	bootResultFile = "/run/cloud-init/result.json"
	bootStatusFile = "/run/cloud-init/status.json"
)

const (
	// guestFileLimit bounds what is taken from a guest.
	guestFileLimit = 64 << 10
	// agentSeconds is how long libvirt waits for the agent.
	agentSeconds = 5
)

// reasonNoAgentChannel: the machine was made for a guest without agent.
const reasonNoAgentChannel = "NoAgentChannel"

var errNoSuchFile = errors.New("no such file in the guest")

// guestFiles reads files through the guest agent (QEMU's guest agent protocol reference).
type guestFiles struct {
	h   *host
	dom libvirt.Domain
}

func (f guestFiles) read(path string) ([]byte, error) {
	var handle int64
	if err := f.command("guest-file-open", map[string]any{"path": path, "mode": "r"}, &handle); err != nil {
		return nil, err
	}
	var chunk struct {
		Content []byte `json:"buf-b64"`
	}
	err := f.command("guest-file-read", map[string]any{"handle": handle, "count": guestFileLimit}, &chunk)
	return chunk.Content, errors.Join(err, f.command("guest-file-close", map[string]any{"handle": handle}, nil))
}

// command runs one agent command. The agent tells a missing file apart only by its text.
func (f guestFiles) command(name string, args map[string]any, out any) error {
	request, err := json.Marshal(map[string]any{"execute": name, "arguments": args})
	if err != nil {
		return err
	}
	answer, err := conn.AgentCall(f.h.ctx, f.h.conn, name, func(l *libvirt.Libvirt) (libvirt.OptString, error) {
		return l.QEMUDomainAgentCommand(f.dom, string(request), agentSeconds, 0)
	})
	if err != nil {
		if strings.Contains(err.Error(), "No such file") {
			return errNoSuchFile
		}
		return err
	}
	if out == nil || len(answer) == 0 {
		return nil
	}
	reply := struct{ Return any }{out}
	if err := json.Unmarshal([]byte(answer[0]), &reply); err != nil {
		return fmt.Errorf("read the guest agent's answer: %w", err)
	}
	return nil
}

// parseBootResult reads result.json. Errors decide between error and done; recoverable errors, which newer versions list by
// level, mean done with warnings.
func parseBootResult(doc []byte) providers.BootReport {
	var r struct {
		V1 struct {
			Errors            []string            `json:"errors"`
			RecoverableErrors map[string][]string `json:"recoverable_errors"`
		} `json:"v1"`
	}
	if err := json.Unmarshal(doc, &r); err != nil {
		return providers.BootReport{CloudInit: providers.CloudInitUnknown, Reason: "BootResultUnreadable", Message: "cloud-init's result.json cannot be read"}
	}
	if len(r.V1.Errors) > 0 {
		return providers.BootReport{CloudInit: providers.CloudInitError, Errors: r.V1.Errors}
	}
	var warnings []string
	for _, texts := range r.V1.RecoverableErrors {
		warnings = append(warnings, texts...)
	}
	if len(warnings) > 0 {
		slices.Sort(warnings)
		return providers.BootReport{CloudInit: providers.CloudInitDegraded, Errors: warnings}
	}
	return providers.BootReport{CloudInit: providers.CloudInitDone}
}

func unknownBoot(err error) providers.BootReport {
	r := providers.BootReport{CloudInit: providers.CloudInitUnknown, Reason: "AgentSilent", Message: "the guest agent does not answer"}
	code, _ := conn.Code(err)
	switch {
	case code == libvirt.ErrArgumentUnsupported:
		r.Reason, r.Message = reasonNoAgentChannel, "the machine has no channel for a guest agent"
	case strings.Contains(err.Error(), "has been disabled") || strings.Contains(err.Error(), "is not allowed"):
		r.Reason, r.Message = "AgentForbids", "the guest's agent does not allow reading files"
	}
	return r
}
