package headpipe

import (
	"cmp"
	"slices"

	"github.com/sdnpu/sdnpu/graphswap"
)

// Timeline returns the schedule of an order in the form that package timeline draws, with times in
// milliseconds. Each group is a block of the timeline: the NPU's task is its launch, and the tasks of
// the CPU are the top-k and the sparse attention of its heads.
func (p *Problem) Timeline(name string, order Order) *graphswap.Timeline {
	line := &graphswap.Timeline{Source: graphswap.Simulated, Plan: &graphswap.Plan{Name: name}}
	add := func(lane graphswap.Lane, kind string, start, end float64, group, head int) {
		if end > start {
			v := graphswap.Prefill
			if lane == graphswap.CPU {
				v = graphswap.None
			}
			line.Tasks = append(line.Tasks, graphswap.Task{Lane: lane, Kind: kind, StartMs: start, EndMs: end, Block: group, Variant: v, Index: -1, Chunk: head, Runs: 1})
		}
	}
	var t lanes
	ready := make([]float64, len(p.Groups))
	launched := make([]bool, len(p.Groups))
	for _, at := range order {
		g := p.Groups[at.Group]
		if !launched[at.Group] {
			launched[at.Group] = true
			add(graphswap.NPU, graphswap.Run, t.npu, t.npu+g.Estimate, at.Group, at.Head)
			t.npu += g.Estimate
			ready[at.Group] = t.npu
			line.NPUBusyMs += g.Estimate
		}
		head := g.Heads[at.Head]
		start := max(t.topK, ready[at.Group])
		attends := start + head.TopK
		if !p.OneCore {
			attends = max(attends, t.sparse)
		}
		add(graphswap.CPU, graphswap.Float, start, start+head.TopK, at.Group, at.Head)
		add(graphswap.CPU, graphswap.Float, attends, attends+head.Sparse, at.Group, at.Head)
		t = p.run(t, head, ready[at.Group])
	}
	line.PrefillMs, line.SwitchEndMs = t.sparse, t.sparse
	slices.SortStableFunc(line.Tasks, func(a, b graphswap.Task) int {
		return cmp.Or(cmp.Compare(a.StartMs, b.StartMs), cmp.Compare(a.Lane, b.Lane))
	})
	return line
}
