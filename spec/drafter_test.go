package spec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

// blend is the oracle of expand: it computes the blended probability of every token
// after a context, directly from the definition.
func blend(sources []*Index, weights []float32, escape float64, depth int, context []int32) map[int32]float64 {
	scores, mass := make(map[int32]float64), 1.0
	for k := min(depth, len(context)); k >= 0; k-- {
		total, distinct, sums := 0.0, 0.0, make(map[int32]float64)
		for i, x := range sources {
			counts := scanCounts(x.Text(), context[:k])
			distinct += float64(len(counts))
			for token, n := range counts {
				total += float64(weights[i]) * float64(n)
				sums[token] += float64(weights[i]) * float64(n)
			}
		}
		if total == 0 {
			continue
		}
		for token, n := range sums {
			scores[token] += mass * n / (total + escape*distinct)
		}
		mass *= escape * distinct / (total + escape*distinct)
	}
	return scores
}

// bestTree is the oracle of Propose: it returns the paths with the largest products of
// probabilities, computed exactly.
func bestTree(sources []*Index, weights []float32, depth int, text []int32, rows int) []float64 {
	type path struct {
		context []int32
		score   float64
	}
	context := make([]int32, 0, len(text))
	for i := len(text) - 1; i >= 0; i-- {
		context = append(context, text[i])
	}
	open, best := []path{{context, 1}}, []float64(nil)
	for len(best) <= rows && len(open) > 0 { // the first path is the root, which has no tokens
		sort.SliceStable(open, func(i, j int) bool { return open[i].score > open[j].score })
		p := open[0]
		open = open[1:]
		best = append(best, p.score)
		for token, score := range blend(sources, weights, 3, depth, p.context) {
			open = append(open, path{append([]int32{token}, p.context...), p.score * score})
		}
	}
	return best[1:]
}

func TestTreesHoldBestRows(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 4))
		context, database := NewIndex(4), NewIndex(4)
		for _, token := range randomText(rng, 1+rng.IntN(60), 3+rng.IntN(9), false) {
			context.Append(token)
		}
		for _, token := range randomText(rng, rng.IntN(60), 3+rng.IntN(9), true) {
			database.Append(token)
		}
		d := NewDrafter(3)
		d.Use(context, 1)
		d.Use(database, 0.25)
		var tree Tree
		rows := 1 + rng.IntN(31)
		d.Propose(&tree, context.Text(), rows)
		checkTree(t, &tree, rows)
		want := bestTree([]*Index{context, database}, []float32{1, 0.25}, 4, context.Text(), rows)
		require.Len(t, tree.Tokens, len(want), "seed %d", seed)
		sum, wantSum := 0.0, 0.0
		for i := range want {
			sum, wantSum = sum+float64(tree.Scores[i]), wantSum+want[i]
		}
		// The drafter leaves out negligible contributions, so its scores may be
		// slightly smaller than the exact ones.
		require.InEpsilon(t, wantSum, sum, 0.05, "seed %d", seed)
		require.LessOrEqual(t, sum, wantSum*1.0001, "seed %d", seed)
		require.InDelta(t, want[0], float64(tree.Scores[0]), want[0]*0.01)
	}
}

// checkTree checks a draft tree: its number of rows, the order of its rows, and that
// siblings have different tokens.
func checkTree(t *testing.T, tree *Tree, rows int) {
	t.Helper()
	require.LessOrEqual(t, tree.Len(), rows)
	seen := make(map[[2]int32]bool)
	for i, parent := range tree.Parents {
		require.Less(t, parent, int32(i))
		require.GreaterOrEqual(t, parent, None)
		require.GreaterOrEqual(t, tree.Tokens[i], int32(0), "a separator is never drafted")
		require.False(t, seen[[2]int32{parent, tree.Tokens[i]}], "siblings differ")
		seen[[2]int32{parent, tree.Tokens[i]}] = true
		require.False(t, math.IsNaN(float64(tree.Scores[i])))
		if parent != None {
			require.LessOrEqual(t, tree.Scores[i], tree.Scores[parent]*1.0001)
		}
	}
}

func TestDraftingAllocatesNothing(t *testing.T) {
	d, x, text := repetitiveDrafter(8192)
	var tree Tree
	n := 0
	require.Zero(t, testing.AllocsPerRun(200, func() {
		tree.Reset()
		d.Propose(&tree, text[:len(text)-n%100], 31)
		n++
	}))
	require.Equal(t, 31, tree.Len())
	require.Equal(t, 8192, x.Len())
}

func TestEmptySourcesDraftNothing(t *testing.T) {
	d := NewDrafter(3)
	var tree Tree
	d.Propose(&tree, []int32{1, 2}, 31)
	d.Use(NewIndex(8), 1)
	d.Propose(&tree, nil, 31)
	d.Propose(&tree, []int32{1, 2}, 0)
	require.Zero(t, tree.Len())
}

// repetitiveDrafter returns a drafter on a text whose words repeat.
func repetitiveDrafter(tokens int) (*Drafter, *Index, []int32) {
	rng := rand.New(rand.NewPCG(5, 6))
	x, follow, token := NewIndex(8), make(map[int32]int32), int32(0)
	for range tokens {
		next, known := follow[token]
		if !known || rng.IntN(2) == 0 {
			next = int32(rng.ExpFloat64() * 300)
			follow[token] = next
		}
		x.Append(next)
		token = next
	}
	d := NewDrafter(3)
	d.Use(x, 1)
	return d, x, x.Text()
}

func ExampleDrafter() {
	text := NewIndex(4)
	for _, token := range []int32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 1} {
		text.Append(token)
	}
	d := NewDrafter(3)
	d.Use(text, 1)
	var tree Tree
	d.Propose(&tree, text.Text(), 3)
	fmt.Println(tree.Tokens, tree.Parents)
	// Output: [4 1 5] [-1 0 1]
}

func TestRejectedFirstRowsAreNotDrafted(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 9))
		x := NewIndex(4)
		for _, token := range randomText(rng, 80, 6, false) {
			x.Append(token)
		}
		may := func(token int32) bool { return token%2 == 0 }
		d := NewDrafter(3)
		d.Use(x, 1)
		var free, tree Tree
		d.Propose(&free, x.Text(), 16)
		d.First = may
		d.Propose(&tree, x.Text(), 16)
		checkTree(t, &tree, 16)
		require.Equal(t, 16, tree.Len(), "other drafts get the rows")
		later := false
		for i, token := range tree.Tokens {
			if tree.Parents[i] == None {
				require.True(t, may(token))
			} else {
				later = later || !may(token)
			}
		}
		require.True(t, later, "only first rows are restricted")
		free.Keep(may)
		checkTree(t, &free, 16)
		for i, token := range free.Tokens {
			require.True(t, free.Parents[i] != None || may(token))
			require.NotEqual(t, None, tree.Child(None, free.Tokens[first(&free, int32(i))]))
		}
	}
}

// first returns the first row of the path to a row.
func first(t *Tree, row int32) int32 {
	for t.Parents[row] != None {
		row = t.Parents[row]
	}
	return row
}

func TestKeepRemovesWholeBranches(t *testing.T) {
	var tree Tree
	a := tree.Add(1, None, 0.9)
	b := tree.Add(2, None, 0.8)
	c := tree.Add(3, a, 0.7)
	tree.Add(4, b, 0.6)
	tree.Add(5, c, 0.5)
	tree.Add(6, None, 0.4)
	tree.Keep(func(token int32) bool { return token != 2 })
	require.Equal(t, []int32{1, 3, 5, 6}, tree.Tokens)
	require.Equal(t, []int32{None, 0, 1, None}, tree.Parents)
	require.Equal(t, []float32{0.9, 0.7, 0.5, 0.4}, tree.Scores)
	tree.Keep(func(int32) bool { return false })
	require.Zero(t, tree.Len())
}

func TestADrafterRefusesAFifthSource(t *testing.T) {
	d := NewDrafter(3)
	for range maxSources {
		d.Use(NewIndex(8), 1)
	}
	require.PanicsWithValue(t, "spec: a drafter has at most 4 sources: raise maxSources", func() { d.Use(NewIndex(8), 1) })
}
