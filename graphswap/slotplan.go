package graphswap

import "slices"

// slotDescend is the planner beside a spare slot.
func (p *Problem) slotDescend(layouts [][]int, effort *int) slotCandidate {
	bound := -1.0
	if p.all(G1) {
		// The last load may end while the last block runs.
		bound = max(p.lanes()) + closer
	}
	var all [][]slotCandidate
	best := slotCandidate{score: score{end: never}}
	for _, windows := range layouts {
		ranked := newSlotSearch(p, windows, effort).ranked(best.score.end)
		if len(ranked) == 0 {
			continue
		}
		if ranked[0].score.better(best.score) {
			best = ranked[0]
		}
		if best.score.end <= bound {
			return best
		}
		all = append(all, ranked)
	}
	slices.SortStableFunc(all, func(a, b []slotCandidate) int { return a[0].score.compare(b[0].score) })
	for i, ranked := range all {
		if i >= climbedOrders && len(ranked[0].search.windows) < len(p.Chunks) {
			continue
		}
		for _, c := range ranked[:min(climbs, len(ranked))] {
			if c = c.search.climb(c); c.score.better(best.score) {
				best = c
			}
			if best.score.end <= bound {
				return best
			}
		}
	}
	if bound >= 0 {
		for _, ranked := range all {
			if len(ranked[0].search.windows) == len(p.Chunks) {
				*effort = max(*effort, proofEffort)
			}
			best = ranked[0].search.exactLoads(best)
		}
	}
	return best
}

// maxReleases bounds the steps from which the starts of one order load.
const maxReleases = 64

// ranked are loads back to back in two orders and from many steps on, best
// first, without those that end far behind what is known. Blocks that begin on
// G2 load G1 first, or do not.
func (s *slotSearch) ranked(known float64) []slotCandidate {
	up, down := make([]int, s.blocks), make([]int, s.blocks)
	for b := range up {
		up[b], down[b] = b, s.blocks-1-b
	}
	var all []slotCandidate
	add := func(loads []Load) {
		got := s.eval(loads, known*promising)
		known = min(known, got.end)
		if got.end < never {
			all = append(all, slotCandidate{s, slices.Clone(loads), got})
		}
	}
	back := s.back()
	if s.problem.all(G2) {
		add(nil) // stay on G2
	}
	stride := (len(s.legs) + maxReleases - 1) / maxReleases
	loads := append(back, make([]Load, s.blocks)...)
	for _, blocks := range [][]int{up, down} {
		for after := -1; after < len(s.legs); after += stride {
			for i, b := range blocks {
				loads[len(back)+i] = Load{Block: b, Graph: G2, After: after}
			}
			add(loads)
		}
	}
	if s.problem.all(G1) && len(s.windows) == s.chunks {
		plan, _ := s.problem.greedy(greed{spare: true})
		add(plan.Loads)
	}
	slices.SortStableFunc(all, func(a, b slotCandidate) int { return a.score.compare(b.score) })
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
func (c slotCandidate) plan(name string) *Plan {
	p := c.search.problem
	plan := p.blank(name, c.search.windows)
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
