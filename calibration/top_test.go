package calibration

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadAgreesWithSoftmax(t *testing.T) {
	var row Row
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		logits := make([]float32, 1+rng.IntN(300))
		sum := 0.0
		for i := range logits {
			logits[i] = float32(rng.IntN(40)) / 4 // many logits are equal
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

func TestInvalidRowsReadAsEmpty(t *testing.T) {
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

func TestReadTopAgreesWithRead(t *testing.T) {
	var whole, part Row
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		logits := make([]float32, 1+rng.IntN(300))
		for i := range logits {
			logits[i] = float32(rng.IntN(60)) / 4
		}
		if rng.IntN(2) == 0 {
			logits[rng.IntN(len(logits))] = float32(math.Inf(-1))
		}
		order, top, sum := make([]int32, len(logits)), math.Inf(-1), 0.0
		for i, v := range logits {
			order[i] = int32(i)
			top = max(top, float64(v))
		}
		for _, v := range logits {
			sum += math.Exp(float64(v) - top)
		}
		sort.SliceStable(order, func(i, j int) bool { return logits[order[i]] > logits[order[j]] })
		order = order[:min(len(order), 5+rng.IntN(20))]
		best := make([]float32, len(order))
		for i, token := range order {
			best[i] = logits[token]
		}
		whole.Read(logits)
		part.ReadTop(order, best, float32(1/sum))
		n := min(len(order), len(whole.Tokens))
		require.Equal(t, whole.Tokens[:n], part.Tokens)
		for i := range part.Probabilities {
			require.InDelta(t, whole.Probabilities[i], part.Probabilities[i], 1e-4)
		}
	}
}

func TestInvalidTopsReadAsEmpty(t *testing.T) {
	var row Row
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		first, share float32
	}{{1, nan}, {1, 0}, {1, -1}, {1, 2}, {inf, 0.5}, {nan, nan}} {
		row.Read([]float32{1, 2})
		row.ReadTop([]int32{3, 4}, []float32{c.first, 0.5}, c.share)
		require.Empty(t, row.Tokens, "%v", c)
		require.Empty(t, row.Probabilities)
	}
	row.ReadTop(nil, nil, 0.5)
	require.Empty(t, row.Tokens)
}

// BenchmarkChunk calibrates 128 tokens of a prompt of 2048 tokens, from the 128 most likely
// next tokens at each position.
func BenchmarkChunk(b *testing.B) {
	const rows, k = 128, 128
	rng := rand.New(rand.NewPCG(1, 2))
	text, ids, logits := make([]int32, 16*rows), make([]int32, rows*k), make([]float32, rows*k)
	for i := range text {
		text[i] = int32(rng.ExpFloat64() * 500)
	}
	for i := range ids {
		ids[i], logits[i] = int32(rng.ExpFloat64()*500), 20-float32(i%k)/4
	}
	var row Row
	table, at := New(Options{}), 0
	b.ReportAllocs()
	for b.Loop() {
		if at == len(text) {
			at = 0
			table.Reset()
		}
		for i := range rows {
			row.ReadTop(ids[i*k:(i+1)*k], logits[i*k:(i+1)*k], 0.4)
			table.Observe(text[:at+i+1], row.Tokens, row.Probabilities)
		}
		at += rows
	}
}
