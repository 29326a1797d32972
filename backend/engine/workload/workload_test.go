package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCalibrationIsPredictedFromWhatWasMeasured(t *testing.T) {
	var h Statistics
	cost, gain := h.Calibration(1000, -1)
	require.Zero(t, cost)
	require.Zero(t, gain, "nothing is known")
	h.HeadRan(1, time.Hour) // one row says nothing about the time of many rows
	h.Answered(1, 9, time.Hour)
	h.Answered(101, 2, 1*time.Second)
	cost, gain = h.Calibration(1000, -1)
	require.Zero(t, cost)
	require.Zero(t, gain, "the head is not known")
	h.HeadRan(32, 32*time.Millisecond)
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
		cost, gain = h.Calibration(c.rows, c.limit)
		require.Equal(t, c.cost, cost)
		require.InDelta(t, c.gain, gain, 1e3, "%d rows, %d tokens", c.rows, c.limit)
	}
	for range 100 { // after many new answers, the means are close to the new values
		h.Answered(11, 3, 400*time.Millisecond)
		h.HeadRan(8, 80*time.Millisecond)
	}
	require.InDelta(t, 11, h.outputs, 1e-3)
	require.InDelta(t, 3, h.accepted, 1e-3)
	require.InDelta(t, 40*time.Millisecond, h.perToken, 1e4)
	require.InDelta(t, 10*time.Millisecond, h.headRow, 1e4)
}

// TestSharedChangesMoveAllWidths: if other load slows this machine down while passes have
// one width only, the expected time of the other width rises too. Passes of both widths
// later correct the ratio of the two expected times.
func TestSharedChangesMoveAllWidths(t *testing.T) {
	confirmed := func() *PassTimes {
		p := NewPassTimes([]int{32, 1})
		for range 1 + unconfirmedPasses {
			p.Record(1, 10*time.Millisecond)
			p.Record(32, 12*time.Millisecond)
		}
		return p
	}
	alone, shared := confirmed(), confirmed()
	shared.ShareChanges()
	for range 50 {
		alone.Record(32, 24*time.Millisecond)
		shared.Record(32, 24*time.Millisecond)
	}
	require.Equal(t, 10*time.Millisecond, alone.Expected(1))
	require.InDelta(t, 24*time.Millisecond, shared.Expected(32), 1e4)
	require.InDelta(t, 18*time.Millisecond, shared.Expected(1), 1e6, "four fifths of twice the time")
	for range 200 { // passes of 32 rows stay slow, and passes of one row become fast again
		shared.Record(1, 10*time.Millisecond)
		shared.Record(32, 24*time.Millisecond)
	}
	require.InDelta(t, 10*time.Millisecond, shared.Expected(1), 2e5)
	require.InDelta(t, 24*time.Millisecond, shared.Expected(32), 2e5)
}
