package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/labels"
)

const gi = 1 << 30

func node(name string, changes ...func(*Node)) Node {
	n := Node{Name: name, Labels: map[string]string{"site": "lab"}, Allocatable: Resources{CPU: 8, Memory: 16 * gi, Storage: 100 * gi}}
	for _, change := range changes {
		change(&n)
	}
	return n
}

func used(cpu, memory int64) func(*Node) {
	return func(n *Node) { n.Allocated = Resources{CPU: cpu, Memory: memory * gi} }
}

func TestChoose(t *testing.T) {
	small := Resources{CPU: 1, Memory: gi / 2, Storage: 8 * gi}
	notReady := func(n *Node) { n.NotReady = "not ready (HostKeyUnknown)" }
	cordoned := func(n *Node) { n.Unschedulable = true }
	unknown := func(n *Node) { n.Allocatable = Resources{} }
	for name, c := range map[string]struct {
		req     Request
		nodes   []Node
		outcome Outcome
		node    string
		message string
	}{
		"nothing there":          {Request{Needs: small}, nil, NoFit, "", "there is no hypervisor"},
		"the emptier one":        {Request{Needs: small}, []Node{node("a", used(4, 2)), node("b", used(1, 1))}, Placed, "b", "least loaded of 2"},
		"memory counts as well":  {Request{Needs: small}, []Node{node("a", used(1, 15)), node("b", used(4, 2))}, Placed, "b", ""},
		"by name when equal":     {Request{Needs: small}, []Node{node("b"), node("a")}, Placed, "a", ""},
		"relative, not absolute": {Request{Needs: small}, []Node{node("a", used(2, 1)), node("b", used(4, 1), func(n *Node) { n.Allocatable.CPU = 64 })}, Placed, "b", ""},
		"one that is not ready":  {Request{Needs: small}, []Node{node("a", notReady), node("b", used(7, 15))}, Placed, "b", "least loaded of 1"},
		"cordoned":               {Request{Needs: small}, []Node{node("a", cordoned)}, NoFit, "", "a: unschedulable"},
		"capacity unknown":       {Request{Needs: small}, []Node{node("a", unknown)}, NoFit, "", "a: its capacity is not known yet"},
		"selector":               {Request{Needs: small, Selector: labels.SelectorFromSet(labels.Set{"site": "dc"})}, []Node{node("a"), node("b", func(n *Node) { n.Labels["site"] = "dc" })}, Placed, "b", ""},
		"selector matches none":  {Request{Needs: small, Selector: labels.SelectorFromSet(labels.Set{"site": "x"})}, []Node{node("a")}, NoFit, "", "its labels do not match"},
		"too much of everything": {Request{Needs: Resources{CPU: 9, Memory: 17 * gi, Storage: 101 * gi}}, []Node{node("a")}, NoFit, "", "a: CPUs: 9 wanted, 8 free, memory: 17408Mi wanted, 16384Mi free, storage:"},
		"reasons host by host":   {Request{Needs: Resources{CPU: 9}}, []Node{node("b", cordoned), node("a")}, NoFit, "", "no hypervisor fits: a: CPUs: 9 wanted, 8 free; b: unschedulable"},
		"exactly fitting":        {Request{Needs: Resources{CPU: 8, Memory: 16 * gi, Storage: 100 * gi}}, []Node{node("a")}, Placed, "a", ""},
		"over-allocated":         {Request{Needs: small}, []Node{node("a", used(20, 1))}, NoFit, "", "1 wanted, 0 free"},
		"named":                  {Request{Node: "b", Needs: small}, []Node{node("a"), node("b", used(7, 1))}, Placed, "b", "named by the spec"},
		"named but unknown":      {Request{Node: "z", Needs: small}, []Node{node("a")}, NodeNotFound, "", `hypervisor "z" does not exist`},
		"named but not ready":    {Request{Node: "a", Needs: small}, []Node{node("a", notReady)}, NodeNotReady, "", "HostKeyUnknown"},
		"named but cordoned":     {Request{Node: "a", Needs: small}, []Node{node("a", cordoned)}, NoFit, "", `hypervisor "a": unschedulable`},
		"named but full":         {Request{Node: "a", Needs: small}, []Node{node("a", used(8, 1))}, NoFit, "", "CPUs: 1 wanted, 0 free"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Choose(c.req, c.nodes)
			assert.Equal(t, c.outcome, d.Outcome, d.Message)
			assert.Equal(t, c.node, d.Node)
			assert.Contains(t, d.Message, c.message)
		})
	}
}
