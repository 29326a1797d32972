package graphswap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGeneralizedCostsAgreeWithTheMeasuredWidths: for any number of blocks, the costs
// that Generalize returns give passes of the measured widths their measured times, and
// all loads together their measured time.
func TestGeneralizedCostsAgreeWithTheMeasuredWidths(t *testing.T) {
	m := Model{Layers: 6}
	for range 3 {
		m.Blocks = append(m.Blocks, MeasuredGraph{Layers: 2, Widths: map[int]MeasuredWidth{
			8: {RunMs: 3, LoadMs: 20, Bytes: 1000}, 128: {RunMs: 15, LoadMs: 20, Bytes: 1000},
		}})
	}
	c := &Cost{Profile: &Profile{Kind: Measured, ID: "phone"}, Model: m}
	g, ok := c.Generalize(1e9)
	require.True(t, ok)
	for _, blocks := range []int{1, 2, 6} {
		p, err := g.Problem(Request{Blocks: blocks, PrefillRows: 128, DecodeRows: 8, Prompt: 128})
		require.NoError(t, err)
		require.InDelta(t, 45, p.PlainPrefillMs(), 1e-9)
		load, bytes := 0.0, int64(0)
		for b := range blocks {
			load, bytes = load+p.LoadMs[0][b], bytes+p.Bytes[0][b]
		}
		require.InDelta(t, 60, load, 1e-6)
		require.InDelta(t, 3000, bytes, 3)
		require.InDelta(t, 9, g.Body(8, 100), 1e-9)
		require.InDelta(t, 45+12.0/120*3*128, g.Body(256, 100), 1e-9)
	}
	for _, b := range []*Cost{
		{Profile: &Profile{}}, {Profile: &Profile{}, Model: Model{Blocks: []MeasuredGraph{{Widths: map[int]MeasuredWidth{8: {RunMs: 1}}}}}},
	} {
		_, ok := b.Generalize(1)
		require.False(t, ok)
	}
}
