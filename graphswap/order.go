package graphswap

import "slices"

// order returns the NPU's work in windows: the chunks of a window go through a
// block one after the other before the next block gets them. Windows of one
// chunk are the order of the papers. With wider ones a block is through with
// its chunks earlier and its graph can be exchanged while the blocks behind it
// compute; what is computed stays the same, since a chunk needs only the block
// before it and the chunk before it.
func order(blocks int, windows []int) []Step {
	var steps []Step
	first := 0
	for _, w := range windows {
		for b := range blocks {
			for c := first; c < first+w; c++ {
				steps = append(steps, Step{Chunk: c, Block: b})
			}
		}
		first += w
	}
	return steps
}

// singly is the order of the papers.
func singly(chunks int) []int { return slices.Repeat([]int{1}, chunks) }

// cuts says per block which chunks run on which graph: G2 before chunk up, G1
// before chunk down, G2 from there on. The number of chunks is a cut behind the
// last one. Blocks that begin with G1 have up 0.
type cuts struct{ up, down []int }

// plan writes cuts down as steps and loads: every load is released as soon as
// the block is through with the graph that it replaces, and loads run in the
// order in which they are released. For loads of one direction that is also the
// order in which they are needed.
func (p *Problem) plan(name string, windows []int, at cuts) *Plan {
	plan := p.blank(name, windows)
	chunks := len(p.Chunks)
	plan.First = slices.Clone(at.down)
	released := func(block, chunk, step int) {
		if chunk == at.up[block] && plan.After[block] != G1 && at.up[block] < at.down[block] {
			plan.load(block, G1, step)
		}
		if chunk == at.down[block] && plan.After[block] != G2 {
			plan.load(block, G2, step)
		}
	}
	for b := range plan.Blocks {
		released(b, 0, -1)
	}
	for i := range plan.Steps {
		s := &plan.Steps[i]
		s.Graph = G1
		if s.Chunk < at.up[s.Block] || s.Chunk >= at.down[s.Block] {
			s.Graph = G2
		}
		if s.Chunk+1 < chunks || at.down[s.Block] == chunks {
			released(s.Block, s.Chunk+1, i)
		}
	}
	plan.tidy()
	return plan
}

// blank is a plan without graphs and loads.
func (p *Problem) blank(name string, windows []int) *Plan {
	blocks := p.Blocks()
	plan := &Plan{
		Name: name, Blocks: blocks, Rows1: p.Rows1, Rows2: p.Rows2, Chunks: p.Chunks,
		Steps: order(blocks, windows), Window: slices.Max(windows),
		Before: make([]Graph, blocks), First: slices.Repeat([]int{len(p.Chunks)}, blocks),
	}
	for b := range plan.Before {
		plan.Before[b] = p.before(b)
	}
	plan.After = slices.Clone(plan.Before)
	return plan
}

// load appends a load.
func (p *Plan) load(block int, g Graph, after int) {
	p.Loads = append(p.Loads, Load{Block: block, Graph: g, After: after})
	p.After[block] = g
}

// tidy sorts the loads that are released behind the last step: ascending, so
// that the first decode pass can follow them.
func (p *Plan) tidy() {
	last := len(p.Steps) - 1
	tail := len(p.Loads)
	for tail > 0 && p.Loads[tail-1].After == last {
		tail--
	}
	slices.SortFunc(p.Loads[tail:], func(a, b Load) int { return a.Block - b.Block })
}
