package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// TestSensitiveProjectionsMultiplyFloats covers the projections of values, and projections with
// outliers in input or result.
func TestSensitiveProjectionsMultiplyFloats(t *testing.T) {
	loaded := load(t, drawn("llama"))
	for _, tensor := range []string{"layer0_gated", "layer0_down"} {
		for rms, floats := range map[float32]int{0: 0, 0.13: 0, 0.12: 1} {
			r := recipe(t, "w8a16")
			r.Ranges = widest(t, loaded)
			r.Ranges.Tensors[tensor] = model.Range{Low: -3, High: 5, RMS: rms}
			g, err := loaded.Block(model.Block{Name: "b", End: 1, Rows: 2, Context: 4, Recipe: r})
			require.NoError(t, err)
			want := []string{"blk.0.attn_v.weight", "blk.0.ffn_down.weight"}[:1+floats]
			var got []string
			for _, n := range g.Nodes {
				if n.Op == backend.FullyConnected && g.Tensors[n.Inputs[0]].Type == backend.Float16 {
					got = append(got, g.Tensors[n.Inputs[1]].Name)
				}
			}
			require.Equal(t, want, got, "%s %v", tensor, rms)
		}
	}
}

func TestSmallCacheHasSymmetricIntegers(t *testing.T) {
	loaded := load(t, drawn("llama"))
	for _, name := range []string{"f16", "w8a16"} {
		r := recipe(t, name+model.SmallCache)
		_, err := loaded.Block(model.Block{Name: "b", End: 1, Rows: 2, Context: 4, Recipe: r})
		require.ErrorIs(t, err, model.ErrRanges)
		r.Ranges = widest(t, loaded)
		g, err := loaded.Block(model.Block{Name: "b", End: 1, Rows: 2, Context: 4, Recipe: r})
		require.NoError(t, err)
		ports := make(map[string]backend.Port)
		for _, list := range [][]backend.Port{g.Signature().Inputs, g.Signature().Outputs} {
			for _, p := range list {
				ports[p.Name] = p
			}
		}
		for _, port := range []string{model.PastKey(0), model.PastValue(0), model.NewKey(0), model.NewValue(0)} {
			require.Equal(t, backend.Ufixed8, ports[port].Type, port)
		}
		for i := range g.Tensors {
			if x := &g.Tensors[i]; x.Type == backend.Ufixed8 {
				require.Equal(t, backend.Encoding{Scale: float32(5.0) / 127, Offset: -128}, x.Encoding, x.Name)
			}
		}
		require.Equal(t, backend.Float16, ports[model.PortY].Type)
	}
	r := recipe(t, "f16"+model.SmallCache)
	r.Ranges = widest(t, loaded)
	r.Ranges.Channels = map[string][]float32{model.NewKey(0): {1}} // of another model
	_, err := loaded.Block(model.Block{Name: "b", End: 1, Rows: 2, Context: 4, Recipe: r})
	require.ErrorIs(t, err, model.ErrRanges)
	_, err = model.FindRecipe("f32" + model.SmallCache)
	require.ErrorIs(t, err, model.ErrRecipe)
}
