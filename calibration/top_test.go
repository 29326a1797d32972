package calibration

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowsReadAsSoftmaxWould(t *testing.T) {
	var row Row
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		logits := make([]float32, 1+rng.IntN(300))
		sum := 0.0
		for i := range logits {
			logits[i] = float32(rng.IntN(40)) / 4 // ties
			if rng.IntN(9) == 0 {
				logits[i] = float32(math.Inf(-1))
			}
		}
		logits[rng.IntN(len(logits))] = 9
		order := make([]int, len(logits))
		for i, v := range logits {
			order[i] = i
			sum += math.Exp(float64(v))
		}
		sort.SliceStable(order, func(i, j int) bool { return logits[order[i]] > logits[order[j]] })
		row.Read(logits)
		for i, token := range row.Tokens {
			require.EqualValues(t, order[i], token)
			require.InDelta(t, math.Exp(float64(logits[token]))/sum, row.Probabilities[i], 1e-4)
		}
		finite := 0
		for _, v := range logits {
			if !math.IsInf(float64(v), 0) {
				finite++
			}
		}
		require.Len(t, row.Tokens, min(topTokens, finite))
	}
}

func TestRowsThatAreNoDistributionAreEmpty(t *testing.T) {
	var row Row
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, logits := range [][]float32{nil, {-inf, -inf}, {1, inf}, {1, 2, nan, 3}} {
		row.Read([]float32{1, 2})
		row.Read(logits)
		require.Empty(t, row.Tokens, "%v", logits)
		require.Empty(t, row.Probabilities)
	}
}

func BenchmarkRowRead(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	logits := make([]float32, 49152)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	var row Row
	b.ReportAllocs()
	for b.Loop() {
		row.Read(logits)
	}
}
