package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
)

// randomChain returns a valid graph of element-wise nodes with any earlier
// tensors as inputs.
func randomChain(t *testing.T, rng *rand.Rand) *backend.Graph {
	b := backend.NewBuilder("chain")
	var ids []backend.TensorID
	for i := range 1 + rng.IntN(3) {
		ids = append(ids, b.Input(fmt.Sprint("in", i), backend.Float32, 1+i))
	}
	pick := func() backend.TensorID { return ids[rng.IntN(len(ids))] }
	for i := range 1 + rng.IntN(20) {
		x := pick()
		y := b.Concat(fmt.Sprint("n", i), 0, x, pick())
		y = b.Slice(fmt.Sprint("s", i), y, 0, 0, 1+rng.IntN(b.Shape(y)[0]))
		ids = append(ids, y)
		if rng.IntN(4) == 0 {
			b.Output(y)
		}
	}
	g, err := b.Graph()
	require.NoError(t, err)
	return g
}

// TestSlotsNeverHoldTwoLivingTensors replays graphs and requires at each node that no other
// tensor has overwritten the scratch slot of an input.
func TestSlotsNeverHoldTwoLivingTensors(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	reused := 0
	for range 500 {
		g := randomChain(t, rng)
		l := newLayout(g)
		owner := make(map[int]backend.TensorID)
		for i := range g.Tensors {
			require.LessOrEqual(t, g.Tensors[i].Elements(), l.sizes[l.slot[i]])
			if g.Tensors[i].Kind == backend.Input {
				owner[l.slot[i]] = backend.TensorID(i)
			}
		}
		for _, n := range g.Nodes {
			for _, id := range n.Inputs {
				require.Equal(t, id, owner[l.slot[id]], "node %s", n.Name)
				require.NotEqual(t, l.slot[id], l.slot[n.Outputs[0]], "node %s writes over its input", n.Name)
			}
			owner[l.slot[n.Outputs[0]]] = n.Outputs[0]
		}
		for i := range g.Tensors {
			if g.Tensors[i].Kind == backend.Output {
				require.Equal(t, backend.TensorID(i), owner[l.slot[i]], "output %s", g.Tensors[i].Name)
			}
		}
		reused += len(g.Tensors) - len(l.sizes)
	}
	require.Positive(t, reused, "no slot was used twice")
}
