package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/graphswap"
)

// keepCases lists changes between two shapes of three blocks with the loads that each change
// needs, if the head's graphs are equal in both shapes. The device has no memory for more
// graphs than the larger shape has.
var keepCases = []struct {
	name           string
	from, to       []int
	planFrom, plan string
	loads          int
}{
	{"prefill width", []int{16, 4}, []int{32, 4}, "", "", 3},
	{"decode width", []int{16, 4}, []int{16, 8}, "", "", 4},
	{"prefill width, plan separate", []int{16, 4}, []int{32, 4}, graphswap.PlanSeparate, graphswap.PlanSeparate, 3},
	{"residency only", []int{16, 4}, []int{16, 4}, graphswap.PlanSeparate, "", 0},
	{"both widths", []int{16, 4}, []int{32, 8}, "", "", 7},
}

// TestEqualGraphsStayLoaded changes one width. Only the graphs of the changed width are loaded,
// the texts and the KV cache stay, and the memory is that of an engine that starts with the new
// shape.
func TestEqualGraphsStayLoaded(t *testing.T) {
	for _, c := range keepCases {
		t.Run(c.name, func(t *testing.T) {
			o := engine.Options{Rows: c.from, Context: 200, FirstContext: 200, Blocks: 3, Plan: c.planFrom}
			dev := newDevice()
			dev.unshared = true
			e, _ := start(t, dev, o)
			fixed, _ := start(t, newDevice(), engine.Options{Rows: c.from, Context: 200, FirstContext: 200, Blocks: 3})
			r := engine.Request{Prompt: story(50), MaxTokens: 9, CachePrompt: true, IgnoreEOS: true}
			for change := range 2 {
				_, _, got := answer(t, e, r)
				_, _, want := answer(t, fixed, r)
				require.Equal(t, want.Output, got.Output)
				require.Equal(t, want.CachedTokens, got.CachedTokens)
				require.Equal(t, readCache(t, fixed), readCache(t, e))
				require.Zero(t, e.DirtySlots())
				r.Prompt = append(append(r.Prompt, got.Output...), story(20)...)
				if change > 0 {
					break
				}
				full, loads := dev.programs.Load(), 0
				dev.onLoad = func() error {
					if dev.programs.Load() >= full {
						return backend.ErrNoMemory
					}
					loads++
					return nil
				}
				require.NoError(t, e.ReplaceGraphs(t.Context(), c.to, 3, c.plan))
				require.Equal(t, c.loads, loads)
				require.Equal(t, full, dev.programs.Load())
				dev.onLoad = nil
			}
			other := newDevice()
			other.unshared = true
			o.Rows, o.Plan = c.to, c.plan
			again, _ := start(t, other, o)
			require.Equal(t, again.Memory(), e.Memory())
			require.Equal(t, other.buffers.Load(), dev.buffers.Load())
		})
	}
}

// TestAFailedChangeWithKeptGraphsKeepsTheTexts makes each load of a change fail, and in a second
// series each load of the old graphs that the engine then tries.
func TestAFailedChangeWithKeptGraphsKeepsTheTexts(t *testing.T) {
	for _, c := range keepCases {
		for k := range c.loads {
			t.Run(fmt.Sprint(c.name, ", load ", k), func(t *testing.T) {
				dev := newDevice()
				dev.unshared = true
				e, _ := start(t, dev, engine.Options{Rows: c.from, Context: 64, Blocks: 3, Plan: c.planFrom})
				_, _, want := answer(t, e, engine.Request{Prompt: begin, MaxTokens: 5})
				full, buffers, memory, left := dev.programs.Load(), dev.buffers.Load(), e.Memory(), k
				dev.onLoad = func() error {
					if dev.programs.Load() >= full {
						return backend.ErrNoMemory
					}
					return failAt(&left)
				}
				require.ErrorIs(t, e.ReplaceGraphs(t.Context(), c.to, 3, c.plan), errFault)
				require.Equal(t, full, dev.programs.Load())
				require.Equal(t, buffers, dev.buffers.Load())
				require.Equal(t, memory, e.Memory())
				_, _, got := answer(t, e, engine.Request{Prompt: begin, MaxTokens: 5})
				require.Equal(t, want.Output, got.Output)
				require.NoError(t, e.ReplaceGraphs(t.Context(), c.to, 3, c.plan))
				_, _, got = answer(t, e, engine.Request{Prompt: begin, MaxTokens: 5})
				require.Equal(t, want.Output, got.Output)
			})
		}
	}
}

// TestARestartAfterAChangeLoadsKeptGraphsAgain restarts the device during the change and after
// it.
func TestARestartAfterAChangeLoadsKeptGraphsAgain(t *testing.T) {
	for _, during := range []bool{true, false} {
		dev := newDevice()
		dev.unshared = true
		e, _ := start(t, dev, engine.Options{Rows: []int{16, 4}, Context: 64, Blocks: 3})
		_, _, want := answer(t, e, engine.Request{Prompt: begin, MaxTokens: 5})
		full := dev.programs.Load()
		dev.onLoad = func() error {
			if during {
				dev.restarts.Add(1)
				during = false
			}
			return nil
		}
		require.NoError(t, e.ReplaceGraphs(t.Context(), []int{32, 4}, 3, ""))
		dev.onLoad = nil
		dev.restarts.Add(1)
		_, _, got := answer(t, e, engine.Request{Prompt: begin, MaxTokens: 5})
		require.Equal(t, want.Output, got.Output)
		require.Equal(t, full, dev.programs.Load())
	}
}

// TestARequestWaitsForOneLoadIfTheDecodeGraphsStay lets a short request come during each load of
// a change that keeps the decode graphs. The request waits for the load in progress only.
func TestARequestWaitsForOneLoadIfTheDecodeGraphsStay(t *testing.T) {
	plain, _ := start(t, newDevice(), engine.Options{Rows: []int{32, 1}, Blocks: 1, Context: 320, FirstContext: 320})
	for at := range 2 {
		p := startInPlaceWith(t, func(o *engine.Options) { o.Configuration.PrefillRows, o.Configuration.DecodeRows = 128, 8 })
		var during engine.Report
		var err error
		var request sync.WaitGroup
		before := 0
		p.atLoad = func(k int) error {
			if k == at {
				request.Go(func() {
					during, err = p.Generate(context.Background(), engine.Request{Prompt: story(2), MaxTokens: 6, IgnoreEOS: true}, func(engine.Piece) error {
						before = max(before, p.loads)
						return nil
					})
				})
				for p.RunningRequests() == 0 { // wait until the engine counts the request as running
				}
			}
			return nil
		}
		long := func(i int) {
			require.Equal(t, generate(t, plain, story(250+i), 2).Output, generate(t, p.Engine, story(250+i), 2).Output)
		}
		for i := 0; p.loads <= at; i++ {
			require.Less(t, i, 9, "the configuration changes")
			long(i)
		}
		request.Wait()
		require.NoError(t, err)
		require.Equal(t, generate(t, plain, story(2), 6).Output, during.Output)
		require.Equal(t, at+1, before, "loads before the end of the answer")
		for i := range 3 {
			long(i)
		}
		require.True(t, p.isComplete())
		require.Equal(t, []graphswap.Config{{Blocks: 2, PrefillRows: 256, DecodeRows: 8, Residency: graphswap.BothGraphs}}, p.chosen)
		require.Equal(t, 2, p.loads, "the two prefill graphs")
		p.end(t)
	}
}
