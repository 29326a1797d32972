package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCalibrationIsPredictedFromWhatWasMeasured(t *testing.T) {
	var h habits
	cost, gain := h.calibration(1000, -1)
	require.Zero(t, cost)
	require.Zero(t, gain, "nothing is known")
	h.head(1, time.Hour) // says nothing about many rows
	h.answered(1, 9, time.Hour)
	h.answered(101, 2, 1*time.Second)
	cost, gain = h.calibration(1000, -1)
	require.Zero(t, cost)
	require.Zero(t, gain, "the head is not known")
	h.head(32, 32*time.Millisecond)
	for _, c := range []struct {
		rows, limit int
		cost, gain  time.Duration
	}{
		{1, -1, 0, 90900 * time.Microsecond},
		{92, -1, 91 * time.Millisecond, 90900 * time.Microsecond},
		{92, 1000, 91 * time.Millisecond, 90900 * time.Microsecond},
		{11, 10, 10 * time.Millisecond, 9 * time.Millisecond},
		{11, 0, 10 * time.Millisecond, 0},
	} {
		cost, gain = h.calibration(c.rows, c.limit)
		require.Equal(t, c.cost, cost)
		require.InDelta(t, c.gain, gain, 1e3, "%d rows, %d tokens", c.rows, c.limit)
	}
	for range 100 { // it follows what changes
		h.answered(11, 3, 400*time.Millisecond)
		h.head(8, 80*time.Millisecond)
	}
	require.InDelta(t, 11, h.outputs, 1e-3)
	require.InDelta(t, 3, h.accepted, 1e-3)
	require.InDelta(t, 40*time.Millisecond, h.perToken, 1e4)
	require.InDelta(t, 10*time.Millisecond, h.headRow, 1e4)
}

func TestAnswersAreExpectedToBeAsTheyWere(t *testing.T) {
	e := &Engine{}
	expect := func(limit int) [2]float64 {
		output, accept := e.expect(&Request{MaxTokens: limit})
		return [2]float64{output, accept}
	}
	require.Equal(t, [2]float64{0, 0}, expect(-1), "nothing is known")
	require.Equal(t, [2]float64{7, 0}, expect(7))
	e.habits.answered(101, 3, time.Second)
	require.Equal(t, [2]float64{101, 3}, expect(-1))
	require.Equal(t, [2]float64{50, 3}, expect(50))
	require.Equal(t, [2]float64{1, 3}, expect(0))
}
