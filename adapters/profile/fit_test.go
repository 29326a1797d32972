package profile

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func random(rng *rand.Rand, points, unknowns int) (x [][]float64, w, y []float64) {
	for range unknowns {
		v := rng.Float64() * 10
		if rng.IntN(4) == 0 {
			v = 0
		}
		w = append(w, v)
	}
	w[rng.IntN(unknowns)] = 1 + rng.Float64()
	for i := range points {
		row, sum := make([]float64, unknowns), 0.0
		for j := range row {
			row[j] = 0.1 + rng.Float64()*float64(i+1)
			sum += w[j] * row[j]
		}
		x, y = append(x, row), append(y, sum)
	}
	return x, w, y
}

func TestExactTimesGiveTheirWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 500 {
		n := 1 + rng.IntN(3)
		x, want, y := random(rng, n+1+rng.IntN(5), n)
		require.InDeltaSlice(t, want, fit(x, y), 1e-6, "%v = %v", x, y)
	}
}

// TestNoOtherNonNegativeWeightsFitBetter tries random weights close to the fit,
// for times that no weights give exactly.
func TestNoOtherNonNegativeWeightsFitBetter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	off := func(x [][]float64, w, y []float64) (sum float64) {
		for i := range y {
			e := -1.0
			for j := range w {
				e += w[j] * x[i][j] / y[i]
			}
			sum += e * e
		}
		return sum
	}
	for range 200 {
		n := 1 + rng.IntN(3)
		x, _, y := random(rng, n+rng.IntN(4), n)
		for i := range y {
			y[i] *= 0.5 + rng.Float64()
		}
		got := fit(x, y)
		best := off(x, got, y)
		for range 300 {
			w := make([]float64, n)
			for j := range w {
				w[j] = max(0, got[j]*(0.8+0.4*rng.Float64())+rng.NormFloat64()*0.05)
			}
			require.GreaterOrEqual(t, off(x, w, y), best-1e-9, "%v is closer than %v", w, got)
		}
	}
}
