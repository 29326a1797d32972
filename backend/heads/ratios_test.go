package heads

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
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

func TestRatiosHaveTheMeanAndTheBounds(t *testing.T) {
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
		ratios, err := Ratios(weights, min(want, 1))
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

func TestRatiosRejectWhatHasNoMeaning(t *testing.T) {
	for _, weights := range [][][]float64{nil, {{}}, {{0}}, {{-1}}, {{math.NaN()}}, {{math.Inf(1)}}} {
		_, err := Ratios(weights, 0.2)
		require.ErrorIs(t, err, ErrRatios)
	}
	for _, mean := range []float64{0, -1, 1.1, math.NaN()} {
		_, err := Ratios([][]float64{{1}}, mean)
		require.ErrorIs(t, err, ErrRatios)
	}
}

func TestWeightsAreProductsBetweenBounds(t *testing.T) {
	p := Importance{Heads: [][]float64{{0.01, -0.2, 5}, {-0.1, 0.1, 0}}, Layers: []float64{0.05, -0.5}}
	require.Equal(t, [][]float64{{0.01 * 0.05, LeastWeight, MostWeight}, {LeastWeight, LeastWeight, LeastWeight}}, p.Weights())
}

// The heavier head keeps all its keys, and the others share what is left of the mean.
func ExampleRatios() {
	ratios, err := Ratios([][]float64{{1e-3, 1e-4}, {1e-4, 1e-6}}, 0.4)
	fmt.Printf("%.2f %v\n", ratios, err)
	// Output: [[1.00 0.29] [0.29 0.02]] <nil>
}
