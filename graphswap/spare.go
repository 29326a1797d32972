package graphswap

import "slices"

// With a spare slot loads take no graph away, so nothing is decided by cuts: a
// plan is an order of loads and, for each, the step behind which it may start.
// Loads of G1, for blocks that begin on G2, come before those of G2.

// slotSearch evaluates such plans in one order of the NPU's work.
type slotSearch struct {
	*search
	ends     []float64 // scratch, per step
	switched []bool    // scratch, per block
}

func newSlotSearch(p *Problem, windows []int, effort *int) *slotSearch {
	s := newSearchAnywhere(p, windows, effort)
	return &slotSearch{search: s, ends: make([]float64, len(s.legs)), switched: make([]bool, s.blocks)}
}

// slot is the loader and the spare slot at work.
type slot struct {
	next    int  // of the loads
	loading bool // the load before next
	end     float64
	free    float64 // from here on
}

// eval is the score of loads; the scan stops where the end must exceed a limit.
func (s *slotSearch) eval(loads []Load, limit float64) score {
	for b := range s.switched {
		s.switched[b] = s.problem.before(b)&G1 == 0
	}
	var io slot
	now, long := 0.0, 0
	*s.effort -= len(s.legs)
	for i := range s.legs {
		if !io.loading || io.end <= now {
			s.settle(&io, loads, i, now)
		}
		if now+s.least[i] > limit {
			return score{end: never}
		}
		l := &s.legs[i]
		time, count := l.short, l.shortRuns
		if !s.switched[l.block] {
			time, count = l.long, l.longRuns
			long++
		}
		now += s.time(time, count, now, io.busy())
		s.ends[i] = now
	}
	s.settle(&io, loads, len(s.legs), never)
	return score{end: max(now, io.free), long: long}
}

// busy is the end of the load under way.
func (s *slot) busy() float64 {
	if s.loading {
		return s.end
	}
	return 0
}

// settle ends and starts loads up to a moment at which i steps have ended.
func (s *slotSearch) settle(io *slot, loads []Load, i int, now float64) {
	for {
		if io.loading {
			if io.end > now {
				return
			}
			l := loads[io.next-1]
			b := l.Block
			io.free = io.end
			if i > 0 && s.legs[i-1].block == b && s.begin(i-1) < io.end {
				io.free = max(io.free, s.ends[i-1])
			}
			s.switched[b], io.loading = l.Graph == G2, false
		}
		if io.next == len(loads) || loads[io.next].After >= i {
			return
		}
		l := loads[io.next]
		start := io.free
		if l.After >= 0 {
			start = max(start, s.ends[l.After])
		}
		if start > now {
			return
		}
		io.loading, io.end = true, start+s.problem.load(l)
		io.next++
	}
}

// begin is the start of a step that has ended: nothing waits beside a spare slot.
func (s *slotSearch) begin(i int) float64 {
	if i == 0 {
		return 0
	}
	return s.ends[i-1]
}

// climb improves loads by exchanging neighbours and by moving releases, until
// nothing helps.
func (s *slotSearch) climb(c candidate) candidate {
	loads := slices.Clone(c.loads)
	best := c.score
	try := func() bool {
		if *s.effort <= 0 {
			return false
		}
		got := s.eval(loads, best.end+closer)
		if got.better(best) {
			best = got
			return true
		}
		return false
	}
	for improved := true; improved && *s.effort > 0; {
		improved = false
		for k := range loads {
			for m := k + 1; m < len(loads); m++ {
				if loads[k].Graph != loads[m].Graph {
					continue
				}
				loads[k].Block, loads[m].Block = loads[m].Block, loads[k].Block
				if try() {
					improved = true
				} else {
					loads[k].Block, loads[m].Block = loads[m].Block, loads[k].Block
				}
			}
			improved = s.shift(loads, k, try) || improved
		}
	}
	return candidate{search: s, loads: loads, score: best}
}

// shift moves one load's release, and those behind it that would be earlier.
func (s *slotSearch) shift(loads []Load, k int, try func() bool) (improved bool) {
	for _, by := range [...]int{-s.blocks, -1, 1, s.blocks} {
		for {
			old := loads[k].After
			loads[k].After = min(max(old+by, -1), len(s.legs)-1)
			if loads[k].After == old || !try() {
				loads[k].After = old
				break
			}
			improved = true
		}
	}
	return improved
}
