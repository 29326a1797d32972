package calibration

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/spec/ngram"
)

// position is one call of Observe: a context and its likely tokens. The oracle keeps
// all positions in a list.
type position struct {
	context, tokens []int32
	probabilities   []float32
}

// sums is the oracle of a Table: it adds up the weight of every successor of a context
// over all positions. The newest token of the context comes first.
func sums(seen []position, context []int32, weight float32) map[int32]float64 {
	total := make(map[int32]float64)
scan:
	for _, p := range seen {
		for i, token := range context {
			at := len(p.context) - 1 - i
			if at < 0 || p.context[at] != token || token < 0 {
				continue scan
			}
		}
		for i, token := range p.tokens {
			if v := p.probabilities[i]; v > 0 && v <= 1 {
				total[token] += float64(weight * v)
			}
		}
	}
	return total
}

func TestTableSumsProbabilities(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		options := Options{Depth: 1 + rng.IntN(4), Weight: 0.5 + rng.Float32()*4}
		table := New(options)
		if seed%2 == 0 {
			table.Observe([]int32{1, 2}, []int32{3}, []float32{1})
			table.Reset()
		}
		var seen []position
		for range 1 + rng.IntN(60) {
			p := position{}
			for range rng.IntN(7) {
				p.context = append(p.context, int32(rng.IntN(4))-int32(rng.IntN(8)/7))
			}
			for range rng.IntN(5) {
				p.tokens = append(p.tokens, int32(len(p.tokens)*3+rng.IntN(3)))
				p.probabilities = append(p.probabilities, rng.Float32()*1.2-0.1)
			}
			seen = append(seen, p)
			table.Observe(p.context, p.tokens, p.probabilities)
		}
		for _, p := range seen {
			var context []int32
			for i := len(p.context) - 1; i >= 0; i-- {
				context = append(context, p.context[i])
			}
			compare(t, table, seen, options, context)
		}
	}
}

func compare(t *testing.T, table *Table, seen []position, o Options, context []int32) {
	t.Helper()
	var total, distinct [8]float32
	var first [8]int32
	found := table.Levels(context, total[:], distinct[:], first[:])
	require.GreaterOrEqual(t, found, 1)
	require.Zero(t, total[0])
	for k := 1; k < found; k++ {
		want := sums(seen, context[:k], o.Weight)
		sum, different, before := 0.0, 0.0, float32(1e9)
		for at := first[k]; at != ngram.End; {
			token, weight, next := table.Successor(at)
			require.InDelta(t, want[token], weight, 1e-3)
			require.LessOrEqual(t, weight, before, "weights never grow along a list")
			delete(want, token)
			sum, different = sum+float64(weight), different+min(1, float64(weight))
			before, at = weight, next
		}
		require.Empty(t, want)
		require.InDelta(t, sum, total[k], 1e-3)
		require.InDelta(t, different, distinct[k], 1e-3)
	}
	for k := found; k <= min(o.Depth, len(context)); k++ {
		require.Empty(t, sums(seen, context[:k], o.Weight), "context %v", context[:k])
	}
}

func TestFullListsKeepTheirWeights(t *testing.T) {
	table := New(Options{})
	for token := range int32(3 * maxFanout) {
		table.Observe([]int32{1}, []int32{token}, []float32{0.5})
	}
	var total, distinct [2]float32
	var first [2]int32
	require.Equal(t, 2, table.Levels([]int32{1}, total[:], distinct[:], first[:]))
	n := 0
	for at := first[1]; at != ngram.End; n++ {
		_, _, at = table.Successor(at)
	}
	require.Equal(t, maxFanout, n)
	require.InDelta(t, 2*maxFanout, total[1], 1e-3)
}

func BenchmarkObserve(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	text, probabilities := make([]int32, 8192), []float32{0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.01, 0.01}
	for i := range text {
		text[i] = int32(rng.ExpFloat64() * 500)
	}
	table, i := New(Options{}), 0
	b.ReportAllocs()
	for b.Loop() { // each iteration of the benchmark observes one position
		if i++; i+8 >= len(text) {
			i = 0
			table.Reset()
		}
		table.Observe(text[:i+1], text[i+1:i+9], probabilities)
	}
}

func ExampleTable() {
	// The prompt is "Clinton has"; the model also found "Clinton arrived"
	// likely.
	const clinton, has, arrived = 7, 8, 9
	t := New(Options{Weight: 1})
	t.Observe([]int32{clinton}, []int32{has, arrived}, []float32{0.5, 0.25})
	var total, distinct [2]float32
	var first [2]int32
	t.Levels([]int32{clinton}, total[:], distinct[:], first[:])
	for at := first[1]; at != -1<<31; {
		var token int32
		var weight float32
		token, weight, at = t.Successor(at)
		fmt.Println(token, weight)
	}
	// Output:
	// 8 0.5
	// 9 0.25
}
