package engine_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/graphswap"
)

// randomSwitching draws a plan: each block leaves its graph for the other one at
// some chunk, or after the last. What is resident decides the direction.
func randomSwitching(rng *rand.Rand, blocks, rows1, rows2 int) func(int, []graphswap.Graph) *graphswap.Plan {
	return func(tokens int, before []graphswap.Graph) *graphswap.Plan {
		p := &graphswap.Plan{Name: "random", Blocks: blocks, Rows1: rows1, Rows2: rows2, Spare: rng.IntN(2) == 0, Before: before, Window: 1}
		for at := 0; at < tokens; at += rows1 {
			p.Chunks = append(p.Chunks, min(rows1, tokens-at))
		}
		for b := range blocks {
			p.First = append(p.First, rng.IntN(len(p.Chunks)+1))
			p.After = append(p.After, before[b]^graphswap.Both)
		}
		for c := 0; c < len(p.Chunks); {
			end := c + 1 // chunks from c on go through a block before the next one gets them
			for end < len(p.Chunks) && rng.IntN(2) == 0 {
				end++
			}
			p.Window = max(p.Window, end-c)
			for i := range blocks * (end - c) {
				s := graphswap.Step{Chunk: c + i%(end-c), Block: i / (end - c)}
				if s.Graph = before[s.Block]; s.Chunk >= p.First[s.Block] {
					s.Graph = p.After[s.Block]
				}
				if p.Spare && rng.IntN(2) == 0 {
					s.Graph = graphswap.Both
				}
				p.Steps = append(p.Steps, s)
			}
			c = end
		}
		for b := range blocks {
			after := slices.IndexFunc(p.Steps, func(s graphswap.Step) bool { return s.Block == b && s.Chunk == p.First[b]-1 })
			p.Loads = append(p.Loads, graphswap.Load{Block: b, Graph: p.After[b], After: after})
		}
		slices.SortStableFunc(p.Loads, func(x, y graphswap.Load) int { return cmp.Compare(x.After, y.After) })
		return p
	}
}

// story is n tokens of a prompt.
func story(n int) []int32 {
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	ids := []int32{1}
	for len(ids) < n {
		ids = append(ids, 3+rng.Int32N(500))
	}
	return ids
}

func generate(t *testing.T, e *engine.Engine, prompt []int32, tokens int) engine.Report {
	t.Helper()
	r, err := e.Generate(t.Context(), engine.Request{Prompt: prompt, MaxTokens: tokens, IgnoreEOS: true}, func(engine.Piece) error { return nil })
	require.NoError(t, err)
	return r
}

func TestAnyPlanGivesTheTextAndCacheOfARunWithoutSwitching(t *testing.T) {
	const rows1, rows2 = 12, 4
	plain, _ := start(t, newDevice(), engine.Options{Rows: []int{rows1, rows2}, Blocks: 1, Context: 96, FirstContext: 96})
	rng := rand.New(rand.NewPCG(1, 1))
	mixed, backwards, windows := 0, 0, 0
	for _, blocks := range []int{1, 2, 3, 5} {
		e, _ := start(t, newDevice(), engine.Options{Plan: "sync", Rows: []int{rows1, rows2}, Blocks: blocks, Context: 96, FirstContext: 96})
		e.PlanWith(randomSwitching(rng, blocks, rows1, rows2))
		for _, n := range []int{1, rows2 - 1, rows2, rows2 + 1, rows1 - 1, rows1, rows1 + 1, 3*rows1 + 5, 5 * rows1} {
			t.Run(fmt.Sprintf("%d blocks, %d tokens", blocks, n), func(t *testing.T) {
				want, got := generate(t, plain, story(n), 9), generate(t, e, story(n), 9)
				require.Equal(t, want.Output, got.Output)
				require.Equal(t, readCache(t, plain), readCache(t, e))
				used := make(map[int]graphswap.Graph)
				for _, task := range got.Plan.Timeline.Tasks {
					if task.Kind == graphswap.Run {
						used[task.Chunk] |= task.Graph
					}
				}
				for _, g := range used {
					if g == graphswap.Both {
						mixed++
					}
				}
				if got.Plan.Timeline.Plan.Window > 1 {
					windows++
				}
				if got.Plan.Timeline.Plan.Before[0] == graphswap.G2 {
					backwards++
				}
				e.WaitForLoads()
				line := e.PlanTimeline()
				require.NoError(t, line.Check(got.Plan.Problem))
				require.Equal(t, got.Plan.Timeline.Plan.After, e.Residency())
			})
		}
	}
	require.Positive(t, mixed, "chunks on mixed residency")
	require.Positive(t, windows, "chunks that went through the blocks together")
	require.Positive(t, backwards, "plans from narrow to wide graphs")
}

func readCache(t *testing.T, e *engine.Engine) []byte {
	t.Helper()
	b, err := e.ReadCache(nil, 0)
	require.NoError(t, err)
	require.NotEmpty(t, b)
	return b
}

func TestPlansThatMakeNoSenseAreRefused(t *testing.T) {
	for name, o := range map[string]engine.Options{
		"unknown":              {Plan: "clairvoyant"},
		"spare of nothing":     {Plan: graphswap.PlanG1 + "+spare"},
		"three widths":         {Plan: graphswap.PlanSync, Rows: []int{16, 4, 1}},
		"no whole parts":       {Plan: graphswap.PlanSync, Rows: []int{16, 5}},
		"a pair without share": {Plan: graphswap.PlanShared, Rows: []int{16, 4}},
	} {
		dev := newDevice()
		dev.apart = true
		_, _, err := open(t, t.Context(), dev, o)
		require.ErrorIs(t, err, engine.ErrOptions, name)
	}
}
