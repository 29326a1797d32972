package outoforder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/graphswap/outoforder"
)

// orderedStages returns two stages on the NPU with a stage on the CPU between them. The last stage
// of each chunk needs that of the chunk before.
func orderedStages(chunks int) []outoforder.Stage {
	times := func(ms int) (list []time.Duration) {
		for i := range chunks {
			list = append(list, time.Duration(ms+i)*time.Millisecond)
		}
		return list
	}
	return []outoforder.Stage{
		{Name: "norm", Lane: graphswap.NPU, Times: times(2)},
		{Name: "outliers", Lane: graphswap.CPU, After: []int{0}, Times: times(7)},
		{Name: "attention", Lane: graphswap.NPU, After: []int{1}, Ordered: true, Times: times(5)},
	}
}

// TestExecutionChoosesLikeTheSimulation executes problems whose tasks take exactly the listed times.
// The schedule must be the one that [outoforder.Problem.Schedule] simulates.
func TestExecutionChoosesLikeTheSimulation(t *testing.T) {
	p, err := outoforder.New(outoforder.Repeat(orderedStages(4), 3), 0)
	require.NoError(t, err)
	for _, policy := range outoforder.Policies() {
		x, now := p.Execute(policy), time.Duration(0)
		var running [2]*outoforder.Task
		for x.Left(graphswap.NPU)+x.Left(graphswap.CPU) > 0 || running[0] != nil || running[1] != nil {
			for lane := range running {
				if running[lane] != nil {
					continue
				}
				if task, ok := x.Next(graphswap.Lane(lane), now); ok {
					running[lane] = &task
				}
			}
			next := time.Duration(-1)
			for _, task := range running {
				if task != nil && (next < 0 || task.End < next) {
					next = task.End
				}
			}
			now = next
			for lane, task := range running {
				if task != nil && task.End == now {
					x.End(*task, now)
					running[lane] = nil
				}
			}
		}
		got := x.Schedule()
		require.NoError(t, p.Check(got))
		require.Equal(t, p.Schedule(policy), got, policy)
	}
}

func TestOrderedStagesRunInTheOrderOfChunks(t *testing.T) {
	p, err := outoforder.New(orderedStages(5), 0)
	require.NoError(t, err)
	for _, policy := range outoforder.Policies() {
		chunk := 0
		for _, task := range p.Schedule(policy).Tasks {
			if task.Stage == 2 {
				require.Equal(t, chunk, task.Chunk, policy)
				chunk++
			}
		}
		require.Equal(t, 5, chunk)
	}
}
