package shadow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/graphswap/outoforder"
)

// TestAblationAddsOneTechniqueAfterTheOther compares the four times of two chunks with one
// stage on each lane.
func TestAblationAddsOneTechniqueAfterTheOther(t *testing.T) {
	c := &Costs{Name: "hand", Rows: 100, Layers: 2, Stages: []StageCost{
		{Name: "norm", Lane: graphswap.CPU, Ms: 4}, {Name: "ffn", Lane: graphswap.NPU, After: []int{0}, Ms: 6},
	}}
	a, err := NewAblation(c, 2, 0, 50*time.Millisecond, 10)
	require.NoError(t, err)
	var ms, times []float64
	for _, s := range a.Steps {
		ms, times = append(ms, s.Ms), append(times, s.Times)
		require.InDelta(t, 200/s.Ms*1e3, s.Rate, 1e-6)
	}
	p, err := c.Problem(2, 0)
	require.NoError(t, err)
	ordered := float64(p.Schedule(outoforder.InOrder).Makespan) / 1e6
	require.InDelta(t, ordered, ms[2], 1e-9)
	require.InDelta(t, ms[1]+100, ms[0], 1e-9, "two loads of 50 ms")
	require.Greater(t, ms[1], 5*ms[2])
	require.InDelta(t, 4+4*6, ms[3], 1e-9, "the NPU waits for the first norm only")
	for i := 1; i < len(ms); i++ {
		require.InDelta(t, ms[i-1]/ms[i], times[i], 1e-9)
	}

	for _, slowdown := range []float64{0, 0.5, 101} {
		_, err := NewAblation(c, 2, 0, 0, slowdown)
		require.ErrorContains(t, err, "want a factor of 1..100")
	}
	_, err = NewAblation(c, 0, 0, 0, 2)
	require.ErrorContains(t, err, "0 chunks")
}

// TestAblationOfThePublishedModel requires that each technique gains time in the published case of two
// chunks of 256 tokens.
func TestAblationOfThePublishedModel(t *testing.T) {
	for _, slowdown := range PublishedGroupSlowdown {
		a, err := NewAblation(&KnownCosts[0], 2, outoforder.DefaultWindow, 500*time.Millisecond, slowdown)
		require.NoError(t, err)
		for _, s := range a.Steps[1:] {
			require.Greater(t, s.Times, 1.05, s.Name)
		}
	}
}
