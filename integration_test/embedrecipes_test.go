package integration_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/chain"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine/embed"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/model/modeltest"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// openEmbedder opens the embedder of a model file. A recipe that needs activation ranges
// gets those of the given texts.
func openEmbedder(t testing.TB, path string, dev backend.Device, recipe string, texts [][]int32) *embed.Embedder {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	m, err := model.Load(f)
	require.NoError(t, err)
	r, err := model.FindRecipe(recipe)
	require.NoError(t, err)
	if r.NeedsRanges() {
		exact, err := model.FindRecipe("f32")
		require.NoError(t, err)
		r.Ranges, err = chain.Calibrate(t.Context(), cpu.New(cpu.Options{}), m, texts, chain.Options{Recipe: exact, Context: 64}, nil)
		require.NoError(t, err)
	}
	e, err := embed.New(t.Context(), dev, m, embed.Options{Recipe: r, Rows: []int{128, 32}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// meanOf returns the mean of hidden states as the oracle's embedding.
func meanOf(m *modeltest.Model, text []int32) []float64 {
	states := m.HiddenStates(text)
	mean := make([]float64, m.Hidden)
	for _, s := range states {
		for j, v := range s {
			mean[j] += v / float64(len(states))
		}
	}
	return m.Dense(mean)
}

// TestEmbeddingsOnTheEmulatorAgreeWithTheOracle compares embeddings of random models on the
// emulator with an oracle in float64. The compared texts are not the texts with which the
// recipes were calibrated.
func TestEmbeddingsOnTheEmulatorAgreeWithTheOracle(t *testing.T) {
	dev := openEmulator(t)
	for i, arch := range append([]string{"qwen3"}, modeltest.Encoders...) {
		t.Run(arch, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, uint64(i)))
			m := shaped(rng, arch, quant.F16, 128, 2)
			m.Key(arch+".pooling_type", uint32(model.PoolMean))
			path := writeModel(t, m)
			calibration, texts := modeltest.RandomTexts(rng, 12, 60, m.Vocab), modeltest.RandomTexts(rng, 6, 40, m.Vocab)
			row := "| " + arch + " |"
			for _, recipe := range []struct {
				name  string
				least float64
			}{{"f16", 0.999}, {"w8a16", 0.999}} {
				e := openEmbedder(t, path, dev, recipe.name, calibration)
				got, report, err := e.Embed(t.Context(), texts)
				require.NoError(t, err)
				require.Equal(t, backend.NPU, report.Lane)
				require.Less(t, report.Passes, len(texts))
				worst := 1.0
				for j, text := range texts {
					x := make([]float64, e.Width())
					for k, v := range got[j][0] {
						x[k] = float64(v)
					}
					worst = min(worst, cosineOf(x, meanOf(m, text)))
				}
				require.GreaterOrEqual(t, worst, recipe.least, recipe.name)
				row += fmt.Sprintf(" %s %.6f |", recipe.name, worst)
			}
			t.Log(row)
		})
	}
}
