package heads

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/chain"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine/enginetest/testfile"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/internal/recorded"
)

// open returns a recorded model and one of its texts.
func open(t *testing.T, recipe model.Recipe, width int) (*Model, *model.Model, []int32) {
	t.Helper()
	m, _ := testfile.Open(t, recorded.File(t, "f32"))
	text := recorded.All(t)["f32"][0].GreedyIDs
	for len(text) < 64 {
		text = append(text, text...)
	}
	dev := cpu.New(cpu.Options{})
	o, err := Open(t.Context(), dev, m, recipe, width, 64)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, o.Close())
		require.NoError(t, dev.Close())
	})
	return o, m, text[:64]
}

// TestCutLayersComputeTheModel compares the layers that are cut at the attention with whole graphs.
func TestCutLayersComputeTheModel(t *testing.T) {
	for name, delta := range map[string]float64{"f32": 1e-3, "f16": 0.1} {
		t.Run(name, func(t *testing.T) { cutLayersComputeTheModel(t, name, delta) })
	}
}

func cutLayersComputeTheModel(t *testing.T, name string, delta float64) {
	recipe, err := model.FindRecipe(name)
	require.NoError(t, err)
	o, m, tokens := open(t, recipe, 16)
	dev := cpu.New(cpu.Options{})
	defer dev.Close()
	whole, err := chain.New(dev, m, [][]int32{tokens}, chain.Options{Recipe: recipe, Rows: 16, Context: 64})
	require.NoError(t, err)
	for i := range m.Config().Layers {
		require.NoError(t, whole.Layer(t.Context(), i, nil))
	}
	want, text, at := whole.Hidden(0), o.NewText(tokens), 0
	var losses []float64
	require.NoError(t, o.Compute(t.Context(), text, 0, 63, 11, Dense, func(rows []Row, y []float32) error {
		for i, v := range y {
			require.InDelta(t, want[at+i], v, delta)
		}
		at += len(y)
		l, err := o.Losses(t.Context(), rows, y)
		losses = append(losses, l...)
		return err
	}))
	require.Len(t, losses, 63)
	require.Equal(t, 63*m.Config().Hidden, at)
	head, err := whole.Head(t.Context())
	require.NoError(t, err)
	defer head.Close()
	logits, err := head.Logits(t.Context(), 0, 0, nil)
	require.NoError(t, err)
	require.InDelta(t, loss(logits[5], tokens[6]), losses[5], delta)
}
