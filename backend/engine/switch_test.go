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

// randomSwitching draws plans. Each block switches from its loaded graph to its other
// graph, at a random chunk or after the last one.
func randomSwitching(rng *rand.Rand, blocks, prefillRows, decodeRows int) func(int, []graphswap.Variant) *graphswap.Plan {
	return func(tokens int, before []graphswap.Variant) *graphswap.Plan {
		p := &graphswap.Plan{Name: "random", Blocks: blocks, PrefillRows: prefillRows, DecodeRows: decodeRows, Spare: rng.IntN(2) == 0, Before: before, Window: 1}
		for at := 0; at < tokens; at += prefillRows {
			p.Chunks = append(p.Chunks, min(prefillRows, tokens-at))
		}
		for b := range blocks {
			p.DecodeFrom = append(p.DecodeFrom, rng.IntN(len(p.Chunks)+1))
			p.After = append(p.After, before[b]^graphswap.Both)
		}
		for c := 0; c < len(p.Chunks); {
			end := c + 1 // chunks from c to end go through a block before the next block gets them
			for end < len(p.Chunks) && rng.IntN(2) == 0 {
				end++
			}
			p.Window = max(p.Window, end-c)
			for i := range blocks * (end - c) {
				s := graphswap.Step{Chunk: c + i%(end-c), Block: i / (end - c)}
				if s.Variant = before[s.Block]; s.Chunk >= p.DecodeFrom[s.Block] {
					s.Variant = p.After[s.Block]
				}
				if p.Spare && rng.IntN(2) == 0 {
					s.Variant = graphswap.Both
				}
				p.Steps = append(p.Steps, s)
			}
			c = end
		}
		for b := range blocks {
			after := slices.IndexFunc(p.Steps, func(s graphswap.Step) bool { return s.Block == b && s.Chunk == p.DecodeFrom[b]-1 })
			p.Loads = append(p.Loads, graphswap.Load{Block: b, Variant: p.After[b], After: after})
		}
		slices.SortStableFunc(p.Loads, func(x, y graphswap.Load) int { return cmp.Compare(x.After, y.After) })
		return p
	}
}

// story returns a prompt of n tokens.
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

func TestPlansChangeNeitherTextNorCache(t *testing.T) {
	const prefillRows, decodeRows = 12, 4
	plain, _ := start(t, newDevice(), engine.Options{Rows: []int{prefillRows, decodeRows}, Blocks: 1, Context: 96, FirstContext: 96})
	rng := rand.New(rand.NewPCG(1, 1))
	mixed, backwards, windows := 0, 0, 0
	for _, blocks := range []int{1, 2, 3, 5} {
		e, _ := start(t, newDevice(), engine.Options{Plan: graphswap.PlanSwitch, Rows: []int{prefillRows, decodeRows}, Blocks: blocks, Context: 96, FirstContext: 96})
		e.PlanWith(randomSwitching(rng, blocks, prefillRows, decodeRows))
		for _, n := range []int{1, decodeRows - 1, decodeRows, decodeRows + 1, prefillRows - 1, prefillRows, prefillRows + 1, 3*prefillRows + 5, 5 * prefillRows} {
			t.Run(fmt.Sprintf("%d blocks, %d tokens", blocks, n), func(t *testing.T) {
				want, got := generate(t, plain, story(n), 9), generate(t, e, story(n), 9)
				require.Equal(t, want.Output, got.Output)
				require.Equal(t, readCache(t, plain), readCache(t, e))
				used := make(map[int]graphswap.Variant)
				for _, task := range got.Plan.Timeline.Tasks {
					if task.Kind == graphswap.Run {
						used[task.Chunk] |= task.Variant
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
				if got.Plan.Timeline.Plan.Before[0] == graphswap.Decode {
					backwards++
				}
				e.WaitForLoads()
				line := e.PlanTimeline()
				require.NoError(t, line.Check(got.Plan.Problem))
				require.Equal(t, got.Plan.Timeline.Plan.After, e.Residency())
			})
		}
	}
	require.Positive(t, mixed, "chunks on both variants")
	require.Positive(t, windows, "chunks that went through the blocks together")
	require.Positive(t, backwards, "plans from decode to prefill graphs")
}

func readCache(t *testing.T, e *engine.Engine) []byte {
	t.Helper()
	b, err := e.ReadCache(nil, 0)
	require.NoError(t, err)
	require.NotEmpty(t, b)
	return b
}

func TestInvalidPlansAreRejected(t *testing.T) {
	for name, o := range map[string]engine.Options{
		"unknown":              {Plan: "clairvoyant"},
		"of a paper":           {Plan: "greedy"},
		"spare of nothing":     {Plan: graphswap.PlanPrefillOnly + "+spare"},
		"three widths":         {Plan: graphswap.PlanSwitch, Rows: []int{16, 4, 1}},
		"no whole parts":       {Plan: graphswap.PlanSwitch, Rows: []int{16, 5}},
		"a pair without share": {Plan: graphswap.PlanResident, Rows: []int{16, 4}},
	} {
		dev := newDevice()
		dev.unshared = true
		_, _, err := open(t, t.Context(), dev, o)
		require.ErrorIs(t, err, engine.ErrOptions, name)
	}
}
