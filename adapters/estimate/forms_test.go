package estimate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon"
)

// The forms that graphs are compared in with those of the program.
const (
	formFloatGate = "gate in float16"
	formByHead    = "scores by head" // reshaped around the softmax
	formSplit     = "heads apart"    // an attention of its own for each head of keys
	formEffort2   = "effort 2"
	formSmallVTCM = "VTCM 4 MB"
)

// apply writes a layer in another form.
func apply(t *testing.T, g *backend.Graph, form string) (*backend.Graph, hexagon.EstimateOptions) {
	t.Helper()
	var o hexagon.EstimateOptions
	switch form {
	case formEffort2:
		o.Optimization = 2
	case formSmallVTCM:
		o.VTCMMegabytes = 4
	case formByHead:
		return rewrite(t, g, byHead, true), o
	case formSplit:
		return rewrite(t, g, headsApart, false), o
	}
	return g, o
}

// attend writes scores, mask, softmax and mixing; q is [1,K,g·M,D], k and v are
// [1,K,T,D], the result is as q.
type attend func(b *backend.Builder, q, k, v, mask backend.TensorID) backend.TensorID

func byHead(b *backend.Builder, q, k, v, mask backend.TensorID) backend.TensorID {
	s := b.Shape(q)
	rows, past := b.Shape(mask)[2], b.Shape(k)[2]
	scores := b.Reshape("scores_by_head", b.MatMul("scores", q, k, true), 1, s[1]*s[2]/rows, rows, past)
	seen := b.Apply("softmax", backend.Softmax, []backend.TensorID{b.Apply("masked", backend.Add, []backend.TensorID{scores, mask})})
	return b.MatMul("mixed", b.Reshape("seen", seen, 1, s[1], s[2], past), v, false)
}

func headsApart(b *backend.Builder, q, k, v, mask backend.TensorID) backend.TensorID {
	var parts []backend.TensorID
	for i := range b.Shape(k)[1] {
		p := fmt.Sprintf("head%d_", i)
		one := func(name string, x backend.TensorID) backend.TensorID { return b.Slice(p+name, x, 1, i, i+1) }
		scores := b.MatMul(p+"scores", one("q", q), one("k", k), true)
		seen := b.Apply(p+"softmax", backend.Softmax, []backend.TensorID{b.Apply(p+"masked", backend.Add, []backend.TensorID{scores, mask})})
		parts = append(parts, b.MatMul(p+"mixed", seen, one("v", v), false))
	}
	return b.Concat("mixed", 1, parts...)
}

// rewrite copies the graph of a layer with another attention; untiled has a mask
// for one head instead of one for all that share keys.
func rewrite(t *testing.T, g *backend.Graph, with attend, untiled bool) *backend.Graph {
	t.Helper()
	b := backend.NewBuilder(g.Name)
	to := make(map[backend.TensorID]backend.TensorID)
	rows := 0
	for i := range g.Tensors {
		x := &g.Tensors[i]
		if x.Kind == backend.Input && x.Name == "x" {
			rows = x.Shape[0]
		}
	}
	var mask backend.TensorID
	for i := range g.Tensors {
		x, id := &g.Tensors[i], backend.TensorID(i)
		switch x.Kind {
		case backend.Input:
			shape := x.Shape
			if x.Name == "mask" {
				if untiled {
					shape = []int{1, 1, rows, shape[3]}
				}
				mask = id
			}
			to[id] = b.EncodedInput(x.Name, x.Type, x.Encoding, shape...)
		case backend.Constant:
			to[id] = b.EncodedConstant(x.Name, x.Type, x.Encoding, x.Values, x.Shape...)
		}
	}
	var q, k backend.TensorID
	for i := range g.Nodes {
		n := &g.Nodes[i]
		switch n.Name {
		case "layer0_scores":
			q, k = to[n.Inputs[0]], to[n.Inputs[1]]
		case "layer0_masked", "layer0_softmax":
		case "layer0_mixed":
			to[n.Outputs[0]] = with(b, q, k, to[n.Inputs[1]], to[mask])
		default:
			in := make([]backend.TensorID, len(n.Inputs))
			for j, id := range n.Inputs {
				in[j] = to[id]
			}
			to[n.Outputs[0]] = b.Apply(n.Name, n.Op, in, n.Params...)
		}
	}
	for i := range g.Tensors {
		if g.Tensors[i].Kind == backend.Output {
			b.Output(to[backend.TensorID(i)])
		}
	}
	copied, err := b.Graph()
	require.NoError(t, err)
	require.NotZero(t, q, "the layer has scores")
	return copied
}
