package residency

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
)

// TestMeasuredCostsLearnFromPlans checks that measured costs learn from plans, that a
// profile of another device does not learn, and that the caller's costs do not change.
func TestMeasuredCostsLearnFromPlans(t *testing.T) {
	for kind, follows := range map[string]bool{graphswap.Measured: true, graphswap.Fitted: false} {
		given := &graphswap.Cost{Profile: &graphswap.Profile{Kind: kind, ID: "d"}, Model: graphswap.Model{Layers: 2, Blocks: []graphswap.MeasuredGraph{
			{Layers: 2, Widths: map[int]graphswap.MeasuredWidth{8: {LoadMs: 10, RunMs: 4, ShortContextMs: 2, Bytes: 7}}},
		}}}
		c := NewCosts(given, []int{8}, []int{2})
		load := []graphswap.Task{{Kind: graphswap.Create, EndMs: 10}}
		twice := []graphswap.Task{{Kind: graphswap.Create, EndMs: 20}}
		for range 50 { // the actual times are always twice the times of the profile
			c.Learn(&graphswap.Timeline{NPUBusyMs: 8 / c.npu, Tasks: twice}, &graphswap.Timeline{NPUBusyMs: 4, Tasks: load})
			c.io = min(c.io, 2)
		}
		got := c.Model("", ModelSizes{}).Model.Blocks[0].Widths[8]
		want := graphswap.MeasuredWidth{LoadMs: 10, RunMs: 4, ShortContextMs: 2, Bytes: 7}
		require.Equal(t, want, given.Model.Blocks[0].Widths[8])
		if !follows {
			require.Equal(t, want, got)
			require.Equal(t, "by the fitted profile d", c.Source())
			continue
		}
		require.InDelta(t, 20, got.LoadMs, 1e-6)
		require.InDelta(t, 8, got.RunMs, 1e-3)
		require.InDelta(t, 4, got.ShortContextMs, 1e-3)
		require.Equal(t, int64(7), got.Bytes)
	}
}

// TestAnUnknownWidthCostsWhatTheNextWiderOneDoes checks the costs of widths that were
// never loaded.
func TestAnUnknownWidthCostsWhatTheNextWiderOneDoes(t *testing.T) {
	m := newMeasured(1)
	require.Zero(t, m.at(4))
	m.Widths[8] = graphswap.MeasuredWidth{LoadMs: 3, RunMs: 10}
	m.Widths[2] = graphswap.MeasuredWidth{LoadMs: 1, RunMs: 4}
	m.Widths[32] = graphswap.MeasuredWidth{LoadMs: 9, RunMs: 30}
	for range 20 { // the checks are repeated, because the order of a map varies
		require.Equal(t, m.Widths[2], m.at(1))
		require.Equal(t, m.Widths[8], m.at(5))
		require.Equal(t, m.Widths[8], m.at(8))
		require.Equal(t, graphswap.MeasuredWidth{LoadMs: 9, RunMs: 60}, m.at(64))
	}
}
