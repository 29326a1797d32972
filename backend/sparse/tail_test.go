package sparse

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTailIsTheMeanValueWithTheEstimatedWeights compares the tail with its definition in float64.
func TestTailIsTheMeanValueWithTheEstimatedWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n, dim := 2+rng.IntN(300), 8*(1+rng.IntN(16))
		keys, _ := randomRows(rng, n, dim, dim)
		values, _ := randomRows(rng, n, dim, dim)
		q, scale := randomVector(rng, dim), float32(0.1)
		tail := Tail{Scores: make([]uint8, n), Unit: 0.5, Values: make([]float32, dim)}
		products, sums := make([]float32, n), make([]float64, dim)
		Products(products, q, keys)
		tail.Zero = -128 * tail.Unit
		for j, p := range products {
			tail.Scores[j] = uint8(min(max(math.Round(float64(p/tail.Unit))+128, 0), 255))
			for i := range dim {
				sums[i] += float64(values.F32[j*dim+i])
			}
		}
		for i, v := range sums {
			tail.Values[i] = float32(v)
		}
		indices := Select(nil, tail.Scores, Rule{Sinks: rng.IntN(3), Floor: 1}, rng.Float64())
		taken, top := make([]bool, n), math.Inf(-1)
		for _, j := range indices {
			taken[j], top = true, max(top, float64(products[j]))
		}
		want, kept, weight, rest := make([]float64, dim), append([]float64(nil), sums...), 0.0, 0.0
		for j := range n {
			if !taken[j] {
				estimate := float64(tail.Zero) + float64(tail.Unit)*float64(tail.Scores[j])
				rest += math.Exp((min(top, estimate) - top) * float64(scale))
				continue
			}
			w := math.Exp((float64(products[j]) - top) * float64(scale))
			weight += w
			for i := range dim {
				want[i] += w * float64(values.F32[j*dim+i])
				kept[i] -= float64(values.F32[j*dim+i])
			}
		}
		got := make([]float32, dim)
		AttendWithTail(got, q, keys, values, indices, scale, tail)
		for i := range want {
			if n > len(indices) {
				want[i] += rest * kept[i] / float64(n-len(indices))
			}
			require.InDelta(t, want[i]/(weight+rest), got[i], 1e-5)
		}
	}
}

func TestNoTailIsDenseAttention(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	keys, _ := randomRows(rng, 100, 64, 64)
	values, _ := randomRows(rng, 100, 64, 64)
	q, got, want := randomVector(rng, 64), make([]float32, 64), make([]float32, 64)
	scores := make([]uint8, 100)
	Dense(want, q, keys, values, 100, 0.125)
	AttendWithTail(got, q, keys, values, Select(nil, scores, Rule{}, 1), 0.125, Tail{Scores: scores, Unit: 1, Values: make([]float32, 64)})
	require.Equal(t, want, got)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		AttendWithTail(got, q, keys, values, []int32{3, 5}, 0.125, Tail{Scores: scores, Unit: 1, Values: want})
	}))
}
