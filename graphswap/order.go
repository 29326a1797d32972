package graphswap

import "slices"

// order returns the NPU's work in windows of the given numbers of chunks: all chunks
// of a window go through a block before the next block gets them. Windows of one chunk
// are the order of the papers. With larger windows a block finishes its chunks earlier,
// so its graph can be switched while the following blocks compute. The results are
// equal: a chunk needs only the block before it and the chunk before it.
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

// chunkByChunk returns the windows of the papers' order.
func chunkByChunk(chunks int) []int { return slices.Repeat([]int{1}, chunks) }

// cuts say for each block which chunks run on which graph: chunks before toPrefill on
// the decode graph, then chunks before toDecode on the prefill graph, then the rest on
// the decode graph. A cut equal to the number of chunks comes after the last chunk.
// Blocks that start with the prefill graph have toPrefill 0.
type cuts struct{ toPrefill, toDecode []int }

// plan returns the plan for the given cuts. Each load may start as soon as its block has finished
// with the graph that it replaces, and the loads run in this order. For loads of one variant that
// is also the order in which steps need them.
func (p *Problem) plan(name string, windows []int, at cuts) *Plan {
	plan := p.newPlan(name, windows)
	chunks := len(p.Chunks)
	plan.DecodeFrom = slices.Clone(at.toDecode)
	released := func(block, chunk, step int) {
		if chunk == at.toPrefill[block] && plan.After[block] != Prefill && at.toPrefill[block] < at.toDecode[block] {
			plan.load(block, Prefill, step)
		}
		if chunk == at.toDecode[block] && plan.After[block] != Decode {
			plan.load(block, Decode, step)
		}
	}
	for b := range plan.Blocks {
		released(b, 0, -1)
	}
	for i := range plan.Steps {
		s := &plan.Steps[i]
		s.Variant = Prefill
		if s.Chunk < at.toPrefill[s.Block] || s.Chunk >= at.toDecode[s.Block] {
			s.Variant = Decode
		}
		if s.Chunk+1 < chunks || at.toDecode[s.Block] == chunks {
			released(s.Block, s.Chunk+1, i)
		}
	}
	plan.sortTrailingLoads()
	return plan
}

// newPlan returns a plan without variants and loads.
func (p *Problem) newPlan(name string, windows []int) *Plan {
	blocks := p.Blocks()
	plan := &Plan{
		Name: name, Blocks: blocks, PrefillRows: p.PrefillRows, DecodeRows: p.DecodeRows, Chunks: p.Chunks,
		Steps: order(blocks, windows), Window: slices.Max(windows),
		Before: make([]Variant, blocks), DecodeFrom: slices.Repeat([]int{len(p.Chunks)}, blocks),
	}
	for b := range plan.Before {
		plan.Before[b] = p.variantBefore(b)
	}
	plan.After = slices.Clone(plan.Before)
	return plan
}

// load appends a load.
func (p *Plan) load(block int, g Variant, after int) {
	p.Loads = append(p.Loads, Load{Block: block, Variant: g, After: after})
	p.After[block] = g
}

// sortTrailingLoads sorts the loads that follow the last step by block, because the
// first decode pass needs them in this order.
func (p *Plan) sortTrailingLoads() {
	last := len(p.Steps) - 1
	tail := len(p.Loads)
	for tail > 0 && p.Loads[tail-1].After == last {
		tail--
	}
	slices.SortFunc(p.Loads[tail:], func(a, b Load) int { return a.Block - b.Block })
}
