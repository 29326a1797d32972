package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/heads"
)

// mean returns the mean of all ratios.
func mean(ratios [][]float64) (sum float64) {
	n := 0
	for _, list := range ratios {
		for _, r := range list {
			sum, n = sum+r, n+1
		}
	}
	return sum / float64(n)
}

func TestPublishedRatiosHaveTheMeanAndTheBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		weights := make([][]float64, 1+rng.IntN(8))
		for l := range weights {
			weights[l] = make([]float64, 1+rng.IntN(16))
			for h := range weights[l] {
				weights[l][h] = math.Exp(8 * rng.NormFloat64())
			}
		}
		want := []float64{0.001, 0.02, 0.2, rng.Float64() + 1e-6, 1}[rng.IntN(5)]
		ratios, err := PublishedRatios(weights, min(want, 1))
		require.NoError(t, err)
		require.InDelta(t, min(want, 1), mean(ratios), 1e-9)
		factor := 0.0
		for l, list := range ratios {
			for h, r := range list {
				require.GreaterOrEqual(t, r, min(LeastRatio, want))
				require.LessOrEqual(t, r, 1.0)
				if r < 1 && r > LeastRatio { // the others are in proportion to the weights
					if factor == 0 {
						factor = r / weights[l][h]
					}
					require.InEpsilon(t, factor, r/weights[l][h], 1e-9)
				}
			}
		}
	}
}

func TestPublishedRatiosRejectWhatHasNoMeaning(t *testing.T) {
	for _, weights := range [][][]float64{nil, {{}}, {{0}}, {{-1}}, {{math.NaN()}}, {{math.Inf(1)}}} {
		_, err := PublishedRatios(weights, 0.2)
		require.ErrorIs(t, err, heads.ErrRatios)
	}
	for _, mean := range []float64{0, -1, 1.1, math.NaN()} {
		_, err := PublishedRatios([][]float64{{1}}, mean)
		require.ErrorIs(t, err, heads.ErrRatios)
	}
}

func TestWeightsAreProductsBetweenBounds(t *testing.T) {
	p := Importance{Heads: [][]float64{{0.01, -0.2, 5}, {-0.1, 0.1, 0}}, Layers: []float64{0.05, -0.5}}
	require.Equal(t, [][]float64{{0.01 * 0.05, LeastWeight, MostWeight}, {LeastWeight, LeastWeight, LeastWeight}}, p.Weights())
}

// The heavier head keeps all its keys, and the others share what is left of the mean.
func ExamplePublishedRatios() {
	ratios, err := PublishedRatios([][]float64{{1e-3, 1e-4}, {1e-4, 1e-6}}, 0.4)
	fmt.Printf("%.2f %v\n", ratios, err)
	// Output: [[1.00 0.29] [0.29 0.02]] <nil>
}

// TestImportanceIsTheLossOfZeroedHeads measures single heads and layers by computing the whole text
// with their results set to zero.
func TestImportanceIsTheLossOfZeroedHeads(t *testing.T) {
	b := newBench(t)
	o, tokens := b.Model, b.Texts[0][:64]
	const rows = 12
	texts := [][]int32{tokens, tokens[:40]}
	p, err := MeasureImportance(t.Context(), o, texts, rows, nil)
	require.NoError(t, err)
	require.Len(t, p.Heads, o.Config().Layers)
	slow := func(layer int, zero func(head int) bool) (mean float64) {
		for _, tokens := range texts {
			text, first := o.NewText(tokens), len(tokens)-1-rows
			attention := func(c *heads.Chunk) {
				heads.Dense(c)
				for r := range c.Out {
					if c.Layer == layer && zero(c.Head) && c.First+r >= first {
						clear(c.Out[r])
					}
				}
			}
			require.NoError(t, o.Compute(t.Context(), text, 0, len(tokens)-1, 8, attention, func(rows []heads.Row, y []float32) error {
				losses, err := o.Losses(t.Context(), rows, y)
				for i, l := range losses {
					if rows[i].Position >= first {
						mean += l
					}
				}
				return err
			}))
		}
		return mean / (2 * rows)
	}
	plain := slow(-1, nil)
	for layer := range o.Config().Layers {
		require.InDelta(t, slow(layer, func(int) bool { return true })-plain, p.Layers[layer], 1e-4)
		head := layer % o.Config().Heads
		require.InDelta(t, slow(layer, func(h int) bool { return h == head })-plain, p.Heads[layer][head], 1e-4)
	}
	_, err = MeasureImportance(t.Context(), o, texts, 33, nil)
	require.ErrorIs(t, err, ErrText)
	_, err = MeasureImportance(t.Context(), o, [][]int32{tokens[:12]}, 12, nil)
	require.ErrorIs(t, err, ErrText)
	require.False(t, math.IsNaN(p.Layers[0]))
}
