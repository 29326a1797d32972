package outoforder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
	. "github.com/sdnpu/sdnpu/graphswap/outoforder"
)

// us returns a time of n microseconds for each chunk.
func us(chunks int, n ...int) (times []time.Duration) {
	for c := range chunks {
		times = append(times, time.Duration(n[min(c, len(n)-1)])*time.Microsecond)
	}
	return times
}

// vector returns a prompt of 4 chunks in 24 layers of 6 stages. The attention of chunk c
// takes 0.35·(c+1) ms.
func vector(t *testing.T, window int) *Problem {
	p, err := New(Repeat([]Stage{
		{Name: "norm1", Lane: graphswap.CPU, Times: us(4, 300)},
		{Name: "qkv", Lane: graphswap.NPU, After: []int{0}, Times: us(4, 1500)},
		{Name: "attention", Lane: graphswap.CPU, After: []int{1}, Past: true, Times: us(4, 350, 700, 1050, 1400)},
		{Name: "o", Lane: graphswap.NPU, After: []int{2}, Times: us(4, 600)},
		{Name: "norm2", Lane: graphswap.CPU, After: []int{3}, Times: us(4, 300)},
		{Name: "ffn", Lane: graphswap.NPU, After: []int{4}, Times: us(4, 3000)},
	}, 24), window)
	require.NoError(t, err)
	return p
}

// The makespans of InOrder, ChunkFirst and CRule, and the bound, come from an independent
// simulation of the published rules, which calls ChunkFirst "FIFO".
func TestMakespansOfFourChunksIn24Layers(t *testing.T) {
	for _, window := range []int{0, DefaultWindow} {
		p := vector(t, window)
		require.Equal(t, 489600*time.Microsecond, p.Bound())
		for policy, want := range map[Policy]struct{ us, bubbles float64 }{
			InOrder: {630300, 0.2232}, ChunkFirst: {501950, 0.0246}, CRule: {493600, 0.0081},
			FIFO: {489900, 0.0006}, LongestPath: {489900, 0.0006}, FeedNPU: {489900, 0.0006},
		} {
			s := p.Schedule(policy)
			require.NoError(t, p.Check(s))
			require.Equal(t, time.Duration(want.us)*time.Microsecond, s.Makespan, "%v", policy)
			require.InDelta(t, want.bubbles, s.Idle, 5e-5, "%v", policy)
		}
		require.Equal(t, 489900*time.Microsecond, p.Shortest().Makespan)
	}
}

// A prompt of one chunk leaves a policy no choice between tasks, so every policy takes the
// time of the longest path.
func TestOneChunkLeavesNoChoice(t *testing.T) {
	stages := vector(t, 0).Stages()
	for i := range stages {
		stages[i].Times = stages[i].Times[:1]
	}
	p, err := New(stages, 0)
	require.NoError(t, err)
	for _, policy := range Policies() {
		require.Equal(t, p.Bound(), p.Schedule(policy).Makespan)
	}
}
