package shadow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/graphswap/outoforder"
)

// TestExecutionsGiveEachTaskItsShortestTime compares two executions of a part, a step and a part.
func TestExecutionsGiveEachTaskItsShortestTime(t *testing.T) {
	run := func(first, step, last int) *outoforder.Problem {
		ms := func(n int) []time.Duration {
			return []time.Duration{time.Duration(n) * time.Millisecond, 10 * time.Millisecond}
		}
		p, err := outoforder.New([]outoforder.Stage{
			{Name: "a", Lane: graphswap.NPU, Times: ms(first)},
			{Name: "s", Lane: graphswap.CPU, After: []int{0}, Times: ms(step)},
			{Name: "b", Lane: graphswap.NPU, After: []int{1}, Times: ms(last)},
		}, 0)
		require.NoError(t, err)
		return p
	}
	o, err := NewExecuted([]*outoforder.Problem{run(10, 50, 10), run(30, 20, 40)}, Order{Costs: "m", Rows: 8})
	require.NoError(t, err)
	require.Equal(t, "executed", o.Kind)
	require.InDelta(t, 10+20+10+30, o.SerialMs, 1e-9)
	require.InDelta(t, 50, o.Policies[outoforder.FIFO].MakespanMs, 1e-9, "the second chunk runs while the first one's step runs")
	require.InDelta(t, 2*8/0.05, o.Policies[outoforder.FIFO].Rate, 1e-9)

	for _, other := range [][]*outoforder.Problem{nil, {run(1, 1, 1), func() *outoforder.Problem {
		p, err := outoforder.New([]outoforder.Stage{{Name: "a", Times: make([]time.Duration, 2)}}, 0)
		require.NoError(t, err)
		return p
	}()}} {
		_, err := NewExecuted(other, Order{})
		require.ErrorIs(t, err, ErrExecution)
	}
}
