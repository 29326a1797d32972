package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
)

// TestMeasuredCostsFollowWhatPlansTake and a profile that stands for another
// device does not; the caller's costs stay as they are.
func TestMeasuredCostsFollowWhatPlansTake(t *testing.T) {
	for kind, follows := range map[string]bool{graphswap.Measured: true, graphswap.Fitted: false} {
		given := &graphswap.Cost{Profile: &graphswap.Profile{Kind: kind, ID: "d"}, Model: graphswap.Model{Layers: 2, Blocks: []graphswap.MeasuredGraph{
			{Layers: 2, Widths: map[int]graphswap.MeasuredWidth{8: {LoadMs: 10, RunMs: 4, ShortMs: 2, Bytes: 7}}},
		}}}
		c := newCosts(given, Options{Rows: []int{8}, Blocks: 1}, 2)
		load := []graphswap.Task{{Kind: graphswap.Create, EndMs: 10}}
		twice := []graphswap.Task{{Kind: graphswap.Create, EndMs: 20}}
		for range 50 { // always twice what is foretold of the profile itself
			c.correct(&graphswap.Timeline{NPUBusyMs: 8 / c.npu, Tasks: twice}, &graphswap.Timeline{NPUBusyMs: 4, Tasks: load})
			c.io = min(c.io, 2)
		}
		got := c.model("", modelSizes{}).Model.Blocks[0].Widths[8]
		want := graphswap.MeasuredWidth{LoadMs: 10, RunMs: 4, ShortMs: 2, Bytes: 7}
		require.Equal(t, want, given.Model.Blocks[0].Widths[8])
		if !follows {
			require.Equal(t, want, got)
			require.Equal(t, "by the fitted profile d", c.source())
			continue
		}
		require.InDelta(t, 20, got.LoadMs, 1e-6)
		require.InDelta(t, 8, got.RunMs, 1e-3)
		require.InDelta(t, 4, got.ShortMs, 1e-3)
		require.Equal(t, int64(7), got.Bytes)
	}
}
