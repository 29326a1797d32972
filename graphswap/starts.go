package graphswap

import "slices"

// promising is the ratio to the best end up to which a start is kept.
const promising = 1.1

// rankedStarts implements [searcher].
func (s *search) rankedStarts(known float64) []candidate {
	starts := s.starts()
	if s.inOrder() {
		starts = append(starts, s.problem.greedyCuts()...)
	}
	all := make([]candidate, 0, len(starts))
	for _, at := range starts {
		got := s.eval(at, known*promising)
		known = min(known, got.end)
		if got.end < never {
			all = append(all, candidate{search: s, cuts: at, score: got})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.score.compare(b.score) })
	return all
}

// greedyCuts returns the cuts of the published rule, with both values of [GreedyOptions].Skip.
func (p *Problem) greedyCuts() (all []cuts) {
	if !p.startsWith(Prefill) {
		return nil
	}
	for _, skip := range []bool{false, true} {
		plan, _ := p.Greedy("", GreedyOptions{Skip: skip})
		all = append(all, cuts{make([]int, p.Blocks()), plan.DecodeFrom})
	}
	return all
}

// starts returns the cuts from which the local search begins: all blocks at one cut,
// the first blocks one cut later than the others, and staircases of one, two and three
// blocks per chunk in both directions.
func (s *search) starts() []cuts {
	var all []cuts
	if s.problem.startsWith(Decode) {
		never := slices.Repeat([]int{s.chunks}, s.blocks)
		all = append(all, cuts{never, never}) // keep the decode graphs
	}
	toPrefill := make([]int, s.blocks)
	var room []int // one allocation for many starts
	add := func(toDecode func(b int) int) {
		if len(room) < s.blocks {
			room = make([]int, 64*s.blocks)
		}
		at := cuts{toPrefill, room[:s.blocks:s.blocks]}
		room = room[s.blocks:]
		for b := range at.toDecode {
			at.toDecode[b] = toDecode(b)
		}
		all = append(all, at)
	}
	for i, cut := range s.allowedCuts {
		add(func(int) int { return cut })
		if i+1 == len(s.allowedCuts) {
			break
		}
		for m := 1; m < s.blocks; m++ {
			add(func(b int) int {
				if b < m {
					return s.allowedCuts[i+1]
				}
				return cut
			})
		}
	}
	last := len(s.allowedCuts) - 1
	for per := 1; per <= 3; per++ {
		for late := range 2 {
			add(func(b int) int { return s.allowedCuts[max(last+late-1-(b+per-1)/per, 0)] })
			add(func(b int) int { return s.allowedCuts[max(last+late-1-(s.blocks-1-b)/per, 0)] })
		}
	}
	return all
}
