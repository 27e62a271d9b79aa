package cloudinit

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	keyPackages = "packages"
	keyRuncmd   = "runcmd"

	agentPackage = "qemu-guest-agent"

	// agentCommand enables and starts the agent. It hands on the exit status of the command before it, since cloud-init joins
	// runcmd to one script and judges that by its last command; it silences and survives a static unit, a guest without
	// systemd and "set -e"; and it does not wait, since the unit waits for a virtio port that may not exist.
	agentCommand = `(s=$?; set +e; systemctl enable qemu-guest-agent; systemctl start --no-block qemu-guest-agent; ` +
		`rc-update add qemu-guest-agent; rc-service qemu-guest-agent start; exit $s) </dev/null >/dev/null 2>&1`
)

// entry is a list entry that a cloud-config must have.
type entry struct {
	key, value string
	// present reports whether an item of the list is as good as the entry.
	present func(*yaml.Node) bool
}

// entries are what the guest agent needs. runcmd comes first because a new key is written above the others.
func entries() []entry {
	return []entry{
		{key: keyRuncmd, value: agentCommand, present: startsAgent},
		{key: keyPackages, value: agentPackage, present: installsAgent},
	}
}

// installsAgent knows the forms of a package: name, [name, version], {apt: [...]}; a name may carry apt's =version, :arch or
// /release.
func installsAgent(n *yaml.Node) bool {
	switch n = target(n); n.Kind {
	case yaml.ScalarNode:
		rest, found := strings.CutPrefix(n.Value, agentPackage)
		return found && (rest == "" || strings.ContainsRune("=:/", rune(rest[0])))
	case yaml.SequenceNode:
		return len(n.Content) > 0 && target(n.Content[0]).Kind == yaml.ScalarNode && installsAgent(n.Content[0])
	case yaml.MappingNode:
		for i := 1; i < len(n.Content); i += 2 {
			for _, item := range target(n.Content[i]).Content {
				if target(item).Kind != yaml.MappingNode && installsAgent(item) {
					return true
				}
			}
		}
	}
	return false
}

// startsAgent knows our own command and the plain ones that start the agent, as text or as a list of words. "enable --now" is
// not among them: it fails on a static unit.
func startsAgent(n *yaml.Node) bool {
	n = target(n)
	text := n.Value
	if n.Kind == yaml.SequenceNode {
		words := make([]string, 0, len(n.Content))
		for _, w := range n.Content {
			words = append(words, target(w).Value)
		}
		text = strings.Join(words, " ")
	}
	if text == agentCommand {
		return true
	}
	words := strings.Fields(strings.TrimPrefix(strings.TrimSuffix(text, ".service"), "sudo "))
	words = slices.DeleteFunc(words, func(w string) bool { return w == "--no-block" })
	return slices.Equal(words, []string{"systemctl", "start", agentPackage}) || slices.Equal(words, []string{"systemctl", "restart", agentPackage})
}

// withAgent is the text of d completed with the guest agent. inherited are lists to begin with where d has none itself.
func withAgent(d *document, inherited map[string][]*yaml.Node) ([]byte, error) {
	original := d
	for _, e := range entries() {
		have, err := d.lookup(e.key)
		if err != nil {
			return nil, err
		}
		var items []*yaml.Node
		if have != nil {
			items = have.Content
		} else {
			items = inherited[e.key]
		}
		if anyOf(items, e.present) {
			continue
		}
		if d, err = d.add(e, items); err != nil {
			return nil, original.cannotAdd(e)
		}
	}
	return d.src, nil
}

// cannotAdd names the list by its line in the document as given.
func (d *document) cannotAdd(e entry) error {
	line := 1
	if i := d.index(e.key); i >= 0 {
		line = d.root.Content[i].Line
	}
	return d.fault(line, "the guest agent cannot be added to %[1]s without changing the document: write %[1]s as a plain list (\"- entry\" lines, no anchors), "+
		"or add %[2]s yourself and set guestAgent: Preinstalled", e.key, agentPackage)
}

func anyOf(items []*yaml.Node, f func(*yaml.Node) bool) bool {
	for _, n := range items {
		if f(n) {
			return true
		}
	}
	return false
}
