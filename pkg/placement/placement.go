// Package placement chooses the node on which a machine is made: a pure function from a snapshot to a decision with its
// reasons. The proxy controller is its caller.
package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Resources is an amount of what machines use; memory and storage in bytes.
type Resources struct {
	CPU, Memory, Storage int64
}

// Add returns the sum.
func (r Resources) Add(o Resources) Resources {
	return Resources{CPU: r.CPU + o.CPU, Memory: r.Memory + o.Memory, Storage: r.Storage + o.Storage}
}

// Node is one place where machines can live.
type Node struct {
	Name   string
	Labels map[string]string
	// NotReady says why nothing can be placed there; empty: ready.
	NotReady string
	// Unschedulable nodes keep what they have and take nothing new.
	Unschedulable bool
	// Allocatable is what machines may use in all, Allocated what placed and reserved machines do. The zero Allocatable
	// means: not known yet.
	Allocatable, Allocated Resources
}

// Request is what a machine needs.
type Request struct {
	// Node by name; empty: any.
	Node string
	// Selector by labels; nil: any.
	Selector labels.Selector
	Needs    Resources
}

// Outcome classifies a decision.
type Outcome int

// The outcomes.
const (
	// Placed: Decision.Node is the choice.
	Placed Outcome = iota
	// NodeNotFound: the named node does not exist.
	NodeNotFound
	// NodeNotReady: the named node is not ready.
	NodeNotReady
	// NoFit: no node fits.
	NoFit
)

// Decision is the choice and why the others were not it.
type Decision struct {
	Outcome Outcome
	Node    string
	// Message explains the decision, node by node, in a stable order.
	Message string
}

// Choose returns the named node if it fits, or the least loaded of those that do. Least loaded is the one whose fuller
// resource, CPU or memory, is least full after the placement; then the one with fewer CPUs in use; then the first by name.
func Choose(req Request, nodes []Node) Decision {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	if req.Node != "" {
		return chooseNamed(req, nodes)
	}
	var fit []Node
	var rejected []string
	for _, n := range nodes {
		if why := Reject(req, n); why != "" {
			rejected = append(rejected, n.Name+": "+why)
			continue
		}
		fit = append(fit, n)
	}
	if len(fit) == 0 {
		if len(nodes) == 0 {
			return Decision{Outcome: NoFit, Message: "there is no hypervisor"}
		}
		return Decision{Outcome: NoFit, Message: "no hypervisor fits: " + strings.Join(rejected, "; ")}
	}
	best := slices.MinFunc(fit, func(a, b Node) int { return compareLoad(req.Needs, a, b) })
	return Decision{Node: best.Name, Message: fmt.Sprintf("least loaded of %d that fit", len(fit))}
}

func chooseNamed(req Request, nodes []Node) Decision {
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == req.Node })
	if i < 0 {
		return Decision{Outcome: NodeNotFound, Message: fmt.Sprintf("hypervisor %q does not exist", req.Node)}
	}
	if why := nodes[i].NotReady; why != "" {
		return Decision{Outcome: NodeNotReady, Message: fmt.Sprintf("hypervisor %q is %s", req.Node, why)}
	}
	if why := Reject(req, nodes[i]); why != "" {
		return Decision{Outcome: NoFit, Message: fmt.Sprintf("hypervisor %q: %s", req.Node, why)}
	}
	return Decision{Node: req.Node, Message: "named by the spec"}
}

// Reject says why the node cannot take the machine, or "" when it can.
func Reject(req Request, n Node) string {
	switch {
	case req.Selector != nil && !req.Selector.Matches(labels.Set(n.Labels)):
		return "its labels do not match the selector"
	case n.NotReady != "":
		return n.NotReady
	case n.Unschedulable:
		return "unschedulable"
	case n.Allocatable == Resources{}:
		return "its capacity is not known yet"
	}
	free := func(have, used int64) int64 { return max(have-used, 0) }
	var short []string
	for _, r := range []struct {
		name        string
		need, avail int64
		unit        int64
		suffix      string
	}{
		{"CPUs", req.Needs.CPU, free(n.Allocatable.CPU, n.Allocated.CPU), 1, ""},
		{"memory", req.Needs.Memory, free(n.Allocatable.Memory, n.Allocated.Memory), 1 << 20, "Mi"},
		{"storage", req.Needs.Storage, free(n.Allocatable.Storage, n.Allocated.Storage), 1 << 20, "Mi"},
	} {
		if r.need > r.avail {
			short = append(short, fmt.Sprintf("%s: %d%s wanted, %d%s free", r.name, r.need/r.unit, r.suffix, r.avail/r.unit, r.suffix))
		}
	}
	return strings.Join(short, ", ")
}

func compareLoad(needs Resources, a, b Node) int {
	return cmp.Or(
		cmp.Compare(load(needs, a), load(needs, b)),
		cmp.Compare(a.Allocated.CPU, b.Allocated.CPU),
		cmp.Compare(a.Name, b.Name),
	)
}

// load is how full the fuller of CPU and memory would be, 0 to 1.
func load(needs Resources, n Node) float64 {
	after := n.Allocated.Add(needs)
	return max(ratio(after.CPU, n.Allocatable.CPU), ratio(after.Memory, n.Allocatable.Memory))
}

func ratio(used, of int64) float64 {
	if of <= 0 {
		return 1
	}
	return float64(used) / float64(of)
}
