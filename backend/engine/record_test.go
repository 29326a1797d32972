package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
)

// TestDecodePassesFollowThePlan on whichever clock, and are bounded in number.
func TestDecodePassesFollowThePlan(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	log := func() *recorder {
		r := newRecorder(began, &graphswap.Plan{Name: "sync"})
		r.add(graphswap.Task{Kind: graphswap.Run, Chunk: 4, EndMs: 20})
		r.add(graphswap.Task{Lane: graphswap.IO, Kind: graphswap.Create, StartMs: 20, EndMs: 50})
		return r
	}
	ours := []Verification{
		{Width: 4, Drafted: 2, Accepted: 1, Began: at(25), Pass: 10 * time.Millisecond},
		{Width: 12, Drafted: 5, Shared: 3, Began: at(40), Pass: 5 * time.Millisecond},
	}
	r := log()
	r.decoded(ours, 3, 12)
	want := []graphswap.Task{
		{Kind: graphswap.Verify, StartMs: 25, EndMs: 35, Block: -1, Graph: graphswap.G2, Index: -1, Chunk: 5, Runs: 3, Rows: 4, Valid: 2, Wasted: 1},
		{Kind: graphswap.Verify, StartMs: 40, EndMs: 45, Block: -1, Graph: graphswap.G1, Index: -1, Chunk: 6, Runs: 3, Rows: 12, Valid: 4, Wasted: 5},
	}
	require.Equal(t, want, r.timeline.Tasks[2:])

	r = log() // the device's time begins where its plan ended
	ours[0].Device, ours[1].Device = 7*time.Millisecond, 2*time.Millisecond
	r.decoded(ours, 3, 12)
	want[0].StartMs, want[0].EndMs, want[1].StartMs, want[1].EndMs = 50, 57, 57, 59
	require.Equal(t, want, r.timeline.Tasks[2:])

	r = log()
	r.decoded(make([]Verification, 3*maxVerified), 3, 12)
	require.Len(t, r.timeline.Tasks, 2+maxVerified)
}
