package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/graphswap"
)

// shapes lists the widths, blocks and plans between which the tests change an engine.
var shapes = []struct {
	rows   []int
	blocks int
	plan   string
}{
	{[]int{8, 1}, 2, ""},
	{[]int{16, 4}, 3, graphswap.PlanSeparate},
	{[]int{8, 4}, 5, graphswap.PlanSwitch},
	{[]int{32, 4}, 1, graphswap.PlanDecodeOnly},
	{[]int{8, 4, 2, 1}, 4, ""},
}

// TestTextAndCacheOutliveAChangeOfShape changes widths, blocks and plan between the
// requests of a conversation, in random orders. Texts and the KV cache equal those of an
// engine that never changes.
func TestTextAndCacheOutliveAChangeOfShape(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 4))
		dev := newDevice()
		dev.unshared = true
		o := engine.Options{Rows: []int{8, 1}, Context: 200, FirstContext: 64, Blocks: 2, Sequences: 2}
		changing, _ := start(t, dev, o)
		fixed, _ := start(t, newDevice(), o)
		text := begin
		for turn := range 8 {
			if turn > 0 {
				s := shapes[rng.IntN(len(shapes))]
				require.NoError(t, changing.ReplaceGraphs(t.Context(), s.rows, s.blocks, s.plan))
				require.Zero(t, changing.DirtySlots())
			}
			r := engine.Request{Prompt: text, MaxTokens: 9, CachePrompt: true, IgnoreEOS: true}
			_, _, got := answer(t, changing, r)
			_, _, want := answer(t, fixed, r)
			require.Equal(t, want.Output, got.Output, "seed %d, turn %d, widths %v", seed, turn, got.Widths)
			require.Equal(t, want.CachedTokens, got.CachedTokens, "the KV cache was copied")
			a, err := changing.ReadCache(nil, 0)
			require.NoError(t, err)
			b, err := fixed.ReadCache(nil, 0)
			require.NoError(t, err)
			require.Equal(t, b, a, "seed %d, turn %d", seed, turn)
			text = append(append(text, want.Output...), rng.Int32N(200), rng.Int32N(200))
		}
	}
}

// TestAFailedChangeOfShapeKeepsTheOldGraphs makes loads and buffers of a change fail, on devices
// whose memory holds two graph sets, and on devices whose memory holds only one.
func TestAFailedChangeOfShapeKeepsTheOldGraphs(t *testing.T) {
	for _, room := range []bool{true, false} {
		for name, breakIt := range map[string]func(d *device, k int){
			"load": func(d *device, k int) {
				room := d.onLoad
				d.onLoad = func() error {
					if err := failAt(&k); err != nil || room == nil {
						return err
					}
					return room()
				}
			},
			"buffer": func(d *device, k int) { d.onBuffer = func() error { return failAt(&k) } },
		} {
			for k := range 4 {
				t.Run(fmt.Sprint(name, k, room), func(t *testing.T) {
					dev := newDevice()
					dev.unshared = true
					e, _ := start(t, dev, engine.Options{Rows: []int{8, 1}, Context: 64, Blocks: 2})
					_, _, want := answer(t, e, engine.Request{Prompt: begin, MaxTokens: 5})
					programs, buffers, memory := dev.programs.Load(), dev.buffers.Load(), e.Memory()
					if !room {
						dev.roomFor(programs)
					}
					breakIt(dev, k)
					err := e.ReplaceGraphs(t.Context(), []int{16, 4}, 3, graphswap.PlanSeparate)
					dev.onLoad, dev.onBuffer = nil, nil
					if err != nil {
						require.ErrorIs(t, err, errFault)
						require.Equal(t, programs, dev.programs.Load())
						require.Equal(t, buffers, dev.buffers.Load())
						require.Equal(t, memory, e.Memory())
					}
					_, _, got := answer(t, e, engine.Request{Prompt: begin, MaxTokens: 5})
					require.Equal(t, want.Output, got.Output)
					if name == "buffer" && k == 0 {
						require.Error(t, err, "the fault has struck")
					}
					require.NoError(t, e.ReplaceGraphs(t.Context(), []int{16, 4}, 3, graphswap.PlanSeparate))
					_, _, got = answer(t, e, engine.Request{Prompt: begin, MaxTokens: 5})
					require.Equal(t, want.Output, got.Output)
				})
			}
		}
	}
}
