package graphswap

import "slices"

// Bounds of the steps from which the starts of one order load.
const minReleases, maxReleases = 12, 64

// releases is how many steps the starts of this order may load from: fewer in
// long prompts, which have many orders, but never few.
func (s *slotSearch) releases() int {
	return min(max(slotEffort/(s.chunks*len(s.legs)), minReleases), maxReleases)
}

// ranked are loads back to back in two orders and from many steps on, best
// first, without those that end far behind what is known. Blocks that begin on
// G2 load G1 first, or do not.
func (s *slotSearch) ranked(known float64) []candidate {
	up, down := make([]int, s.blocks), make([]int, s.blocks)
	for b := range up {
		up[b], down[b] = b, s.blocks-1-b
	}
	var all []candidate
	add := func(loads []Load) {
		got := s.eval(loads, known*promising)
		known = min(known, got.end)
		if got.end < never {
			all = append(all, candidate{search: s, loads: slices.Clone(loads), score: got})
		}
	}
	back := s.back()
	if s.problem.all(G2) {
		add(nil) // stay on G2
	}
	stride := (len(s.legs) + s.releases() - 1) / s.releases()
	loads := append(back, make([]Load, s.blocks)...)
	for _, blocks := range [][]int{up, down} {
		for after := -1; after < len(s.legs); after += stride {
			for i, b := range blocks {
				loads[len(back)+i] = Load{Block: b, Graph: G2, After: after}
			}
			add(loads)
		}
	}
	if s.problem.all(G1) && s.inOrder() {
		plan, _ := s.problem.greedy(greed{spare: true})
		add(plan.Loads)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.score.compare(b.score) })
	return all
}

// back are the loads of G1 that blocks need first.
func (s *slotSearch) back() (loads []Load) {
	for b := range s.blocks {
		if s.problem.before(b)&G1 == 0 {
			loads = append(loads, Load{Block: b, Graph: G1, After: -1})
		}
	}
	return loads
}

// plan writes loads down as a plan.
func (s *slotSearch) plan(name string, c candidate) *Plan {
	p := s.problem
	plan := p.blank(name, s.windows)
	for _, l := range c.loads {
		plan.load(l.Block, l.Graph, l.After)
	}
	plan.tidy()
	plan.beside()
	if line, err := Simulate(plan, p); err == nil {
		plan.First = slices.Repeat([]int{len(p.Chunks)}, plan.Blocks)
		for _, t := range line.Tasks {
			if t.Kind == Run && t.Graph == G2 {
				plan.First[t.Block] = min(plan.First[t.Block], t.Chunk)
			}
		}
	}
	return plan
}
