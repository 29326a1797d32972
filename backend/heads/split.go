package heads

import (
	"errors"
	"fmt"

	"github.com/sdnpu/sdnpu/backend"
)

// ErrModel is returned for models whose layers cannot be cut at the attention.
var ErrModel = errors.New("the model's layers cannot be cut at the attention")

// extract returns the part of a graph that computes the tensors `outputs`. Tensors that are named in
// `inputs` are inputs of the part.
func extract(g *backend.Graph, name string, inputs, outputs []string) (*backend.Graph, error) {
	x := extractor{from: g, to: &backend.Graph{Name: name}, made: make([]int, len(g.Tensors)), kinds: make(map[backend.TensorID]backend.Kind), ids: make(map[backend.TensorID]backend.TensorID)}
	names := make(map[string]backend.TensorID, len(g.Tensors))
	for i := range g.Tensors {
		names[g.Tensors[i].Name], x.made[i] = backend.TensorID(i), -1
	}
	for i := range g.Nodes {
		for _, id := range g.Nodes[i].Outputs {
			x.made[id] = i
		}
	}
	for _, list := range []struct {
		names []string
		kind  backend.Kind
	}{{inputs, backend.Input}, {outputs, backend.Output}} {
		for _, n := range list.names {
			id, ok := names[n]
			if !ok {
				return nil, fmt.Errorf("heads: %w: graph %q has no tensor %q", ErrModel, g.Name, n)
			}
			x.kinds[id] = list.kind
		}
	}
	needed := make([]bool, len(g.Nodes))
	for _, n := range outputs {
		x.need(needed, names[n])
	}
	for i, n := range g.Nodes {
		if needed[i] {
			n.Inputs, n.Outputs = x.tensors(n.Inputs), x.tensors(n.Outputs)
			x.to.Nodes = append(x.to.Nodes, n)
		}
	}
	return x.to, x.to.Validate()
}

// extractor copies nodes from one graph to another one.
type extractor struct {
	from, to *backend.Graph
	made     []int // made holds the node that computes each tensor, or -1
	kinds    map[backend.TensorID]backend.Kind
	ids      map[backend.TensorID]backend.TensorID
}

// need marks the nodes that the tensor depends on.
func (x *extractor) need(needed []bool, id backend.TensorID) {
	node := x.made[id]
	if kind, ok := x.kinds[id]; node < 0 || needed[node] || ok && kind == backend.Input {
		return
	}
	needed[node] = true
	for _, in := range x.from.Nodes[node].Inputs {
		x.need(needed, in)
	}
}

// tensors returns the copies of tensors. It copies tensors that have no copy yet.
func (x *extractor) tensors(list []backend.TensorID) []backend.TensorID {
	out := make([]backend.TensorID, len(list))
	for i, id := range list {
		own, known := x.ids[id]
		if !known {
			t := x.from.Tensors[id]
			if kind, ok := x.kinds[id]; ok {
				t.Kind = kind
			} else if t.Kind == backend.Output {
				t.Kind = backend.Intermediate
			}
			x.to.Tensors = append(x.to.Tensors, t)
			own = backend.TensorID(len(x.to.Tensors) - 1)
			x.ids[id] = own
		}
		out[i] = own
	}
	return out
}
