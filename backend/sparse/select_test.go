package sparse

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// sortedSelect is the slow, obvious selection: it sorts all keys.
func sortedSelect(scores []uint8, rule Rule, ratio float64) (kept []int32) {
	order := make([]int32, len(scores))
	for j := range order {
		order[j] = int32(j)
	}
	slices.SortFunc(order, func(a, b int32) int {
		if d := int(scores[b]) - int(scores[a]); d != 0 {
			return d
		}
		return int(b - a)
	})
	in := make([]bool, len(scores))
	for _, j := range order[:rule.Keep(len(scores), ratio)] {
		in[j] = true
	}
	for j := range min(rule.Sinks, len(scores)) {
		in[j] = true
	}
	if len(scores) > 0 {
		in[len(scores)-1] = true
	}
	for j, taken := range in {
		if taken {
			kept = append(kept, int32(j))
		}
	}
	return kept
}

func TestSelectAgreesWithSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	buffer := make([]int32, 0, 16)
	for trial := range 2000 {
		n, values := rng.IntN(300), 1+rng.IntN(256)
		if trial%40 == 0 {
			n = rng.IntN(20000)
		}
		scores := make([]uint8, n)
		first := rng.IntN(256 - values + 1)
		for j := range scores {
			scores[j] = uint8(first + rng.IntN(values))
		}
		rule := Rule{Sinks: rng.IntN(80), Floor: rng.IntN(80)}
		ratio := []float64{0, 0.02, 0.2, rng.Float64(), 1}[rng.IntN(5)]
		buffer = Select(buffer[:0], scores, rule, ratio)
		want := sortedSelect(scores, rule, ratio)
		require.Equal(t, len(want), len(buffer), "n %d, values %d, %+v, ratio %g", n, values, rule, ratio)
		require.True(t, slices.Equal(want, buffer), "n %d, values %d, %+v, ratio %g", n, values, rule, ratio)
	}
}

func TestSelectKeepsWhatTheRuleSays(t *testing.T) {
	for _, c := range []struct {
		name   string
		scores []uint8
		rule   Rule
		ratio  float64
		want   []int32
	}{
		{"no key", nil, DefaultRule, 0.2, nil},
		{"own key only", []uint8{0}, Rule{}, 0, []int32{0}},
		{"the largest and the own key", []uint8{3, 9, 5, 1}, Rule{}, 0.25, []int32{1, 3}},
		{"ties prefer later keys", []uint8{7, 7, 7, 7, 0}, Rule{}, 0.4, []int32{2, 3, 4}},
		{"sinks are added", []uint8{0, 0, 9, 9, 9}, Rule{Sinks: 1}, 0.4, []int32{0, 3, 4}},
		{"a floor of keys", []uint8{5, 4, 3, 2, 1}, Rule{Floor: 3}, 0.2, []int32{0, 1, 2, 4}},
		{"a floor above all keys", []uint8{5, 4}, Rule{Floor: 3}, 0.2, []int32{0, 1}},
		{"ratio 1", []uint8{0, 0, 0}, Rule{}, 1, []int32{0, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, Select(nil, c.scores, c.rule, c.ratio)) })
	}
	require.Equal(t, 3, Rule{}.Keep(30, 0.1), "products of the ratio are not rounded up by an error in the last place")
}

func TestSelectAppends(t *testing.T) {
	require.Equal(t, []int32{42, 1}, Select([]int32{42}, []uint8{0, 1}, Rule{}, 0.5))
}

// TestMarksAgreeWithPlainMarks compares the vector instructions with their plain twins.
func TestMarksAgreeWithPlainMarks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		scores := make([]uint8, rng.IntN(20000))
		for j := range scores {
			scores[j] = uint8(rng.Uint32())
		}
		least := uint8(rng.IntN(256))
		require.Equal(t, plainCount(scores, least), count(scores, least))
		got, want := make([]uint64, len(scores)/64+1), make([]uint64, len(scores)/64+1)
		mark(got, scores, least)
		plainMark(want, scores, least)
		require.Equal(t, want, got)
	}
}

func TestTheKthLargestIsThatOfASortedList(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		values := make([]float32, 1+rng.IntN(50))
		for i := range values {
			values[i] = float32(rng.IntN(20))
		}
		sorted := slices.Clone(values)
		slices.SortFunc(sorted, func(a, b float32) int { return cmp.Compare(b, a) })
		before := slices.Clone(values)
		k := 1 + rng.IntN(len(values))
		require.Equal(t, sorted[k-1], KthLargest(values, k))
		require.Equal(t, before, values)
	}
}
