package graphswap

import (
	"math"
	"slices"
)

// search evaluates cuts in one order of the NPU's work, without building plans:
// a few nanoseconds per leg. Its times are the simulator's; only slow-downs by
// loads are spread evenly over a leg's executes.
type search struct {
	problem *Problem
	windows []int
	blocks  int
	chunks  int
	legs    []leg
	least   []float64 // per leg: the least time from it on
	allowed []int     // cuts that are tried
	loads   float64   // all loads to G2
	slow    float64
	ready   []float64 // scratch, per block: the end of its latest load
	effort  *int      // legs that may still be looked at
}

// leg is a run of chunks through one block on one graph.
type leg struct {
	block, first, end   int // chunks first to end-1
	longRuns, shortRuns int // executes
	long, short         float64
}

// newSearch is a search in windows. Blocks switch at the bounds of windows
// alone: within one a block has no time to load.
func newSearch(p *Problem, windows []int, effort *int) *search {
	s := &search{problem: p, windows: windows, allowed: []int{0}, effort: effort}
	first := 0
	for _, w := range windows {
		for b := range p.Blocks() {
			s.legs = append(s.legs, p.leg(b, first, first+w))
		}
		first += w
		s.allowed = append(s.allowed, first)
	}
	return s.begin()
}

// newSearchIn is a search in any order, with cuts anywhere.
func newSearchIn(p *Problem, steps []Step, effort *int) *search {
	s := &search{problem: p, effort: effort}
	for _, step := range steps {
		s.legs = append(s.legs, p.leg(step.Block, step.Chunk, step.Chunk+1))
	}
	for c := range len(p.Chunks) + 1 {
		s.allowed = append(s.allowed, c)
	}
	return s.begin()
}

// newSearchAnywhere is a search in windows, with cuts anywhere.
func newSearchAnywhere(p *Problem, windows []int, effort *int) *search {
	s := newSearchIn(p, order(p.Blocks(), windows), effort)
	s.windows = windows
	return s
}

func (p *Problem) leg(block, first, end int) leg {
	l := leg{block: block, first: first, end: end, longRuns: end - first}
	for c := first; c < end; c++ {
		l.long += p.P[c][block]
		l.short += p.D[c][block]
		l.shortRuns += runs(p.Rows2, p.Chunks[c], G2)
	}
	return l
}

func (s *search) begin() *search {
	p := s.problem
	s.blocks, s.chunks, s.slow = p.Blocks(), len(p.Chunks), p.slow()
	s.ready = make([]float64, s.blocks)
	s.least = make([]float64, len(s.legs)+1)
	for i := len(s.legs) - 1; i >= 0; i-- {
		s.least[i] = s.least[i+1] + min(s.legs[i].long, s.legs[i].short)
	}
	for _, l := range p.Load[1] {
		s.loads += l
	}
	return s
}

// score orders plans: by the end of prefill and switching, then by the waits,
// then by how long blocks stay on the graph that takes less energy.
type score struct {
	end, stall float64
	long       int // steps on G1
}

// closer is how much better an end must be to count: the waits decide below.
const closer = 1e-9

func (a score) better(b score) bool {
	switch {
	case a.end < b.end-closer || a.end > b.end+closer:
		return a.end < b.end
	case a.stall < b.stall-closer || a.stall > b.stall+closer:
		return a.stall < b.stall
	}
	return a.long > b.long
}

// compare is for sorting, best first.
func (a score) compare(b score) int {
	switch {
	case a.better(b):
		return -1
	case b.better(a):
		return 1
	}
	return 0
}

// eval is the score of cuts; the scan stops where the end must exceed a limit.
func (s *search) eval(at cuts, limit float64) score {
	now, stall, long := 0.0, 0.0, 0
	io := s.evalStart(at)
	*s.effort -= len(s.legs)
	for i := range s.legs {
		if now+s.least[i] > limit || io > limit {
			return score{end: never}
		}
		l := &s.legs[i]
		up, down := at.up[l.block], at.down[l.block]
		if (l.first == up || l.first == down) && s.ready[l.block] > now {
			stall += s.ready[l.block] - now
			now = s.ready[l.block]
		}
		time, count := l.short, l.shortRuns
		if l.first >= up && l.first < down {
			time, count = l.long, l.longRuns
			long += count
		}
		now += s.time(time, count, now, io)
		if l.end == down && up < down {
			io = max(io, now) + s.problem.Load[1][l.block]
			s.ready[l.block] = io
		} else if l.end == up && up < down {
			io = max(io, now) + s.problem.Load[0][l.block]
			s.ready[l.block] = io
		}
	}
	return score{end: max(now, io), stall: stall, long: long}
}

// evalStart begins the loads that wait for no step.
func (s *search) evalStart(at cuts) (io float64) {
	for b := range s.blocks {
		s.ready[b] = 0
		g := s.problem.before(b)
		if at.up[b] == 0 && at.down[b] > 0 && g&G1 == 0 {
			io += s.problem.Load[0][b]
			s.ready[b] = io
		}
		if at.down[b] == 0 && g&G2 == 0 {
			io += s.problem.Load[1][b]
			s.ready[b] = io
		}
	}
	return io
}

// slowed is the time of executes when the loader is busy until io: those that
// begin before take longer.
func slowed(total float64, count int, now, io, slow float64) float64 {
	each := total / float64(count)
	late := (io - now) / (each * slow) // executes that fit into the load
	inside := min(math.Ceil(late), float64(count))
	return total + inside*each*(slow-1)
}

func (s *search) inOrder() bool { return len(s.windows) == s.chunks }

func (s *search) plan(name string, c candidate) *Plan { return s.problem.plan(name, s.windows, c.at) }

// climb improves cuts one block at a time until nothing helps.
func (s *search) climb(c candidate) candidate {
	c.at = c.at.clone()
	for improved := true; improved && *s.effort > 0; {
		improved = false
		for b := range s.blocks {
			improved = s.move(c.at, b, &c.score) || improved
		}
	}
	return c
}

// move tries all cuts of one block. Blocks that begin on G1 have no way up.
func (s *search) move(at cuts, b int, best *score) bool {
	up, down := at.up[b], at.down[b]
	moved := false
	ups := s.allowed
	if s.problem.before(b)&G2 == 0 || s.problem.before(b) == Both {
		ups = s.allowed[:1]
	}
	for _, u := range ups {
		for _, d := range s.allowed {
			if d < u || u == up && d == down || u == d && u > 0 && u < s.chunks {
				continue // staying on G2 has one spelling: never up
			}
			at.up[b], at.down[b] = u, d
			if got := s.eval(at, best.end+closer); got.better(*best) {
				*best, up, down, moved = got, u, d, true
			}
		}
	}
	at.up[b], at.down[b] = up, down
	return moved
}

func (at cuts) clone() cuts { return cuts{slices.Clone(at.up), slices.Clone(at.down)} }

// starts are the shapes from which a climb begins: all blocks at one cut, a
// prefix of blocks one cut later, and staircases of one, two and three blocks
// per chunk, the last block first.
func (s *search) starts() []cuts {
	var all []cuts
	if s.problem.all(G2) {
		never := slices.Repeat([]int{s.chunks}, s.blocks)
		all = append(all, cuts{never, never}) // stay on G2
	}
	up := make([]int, s.blocks)
	var room []int // for many starts at once
	add := func(down func(b int) int) {
		if len(room) < s.blocks {
			room = make([]int, 64*s.blocks)
		}
		at := cuts{up, room[:s.blocks:s.blocks]}
		room = room[s.blocks:]
		for b := range at.down {
			at.down[b] = down(b)
		}
		all = append(all, at)
	}
	for i, cut := range s.allowed {
		add(func(int) int { return cut })
		if i+1 == len(s.allowed) {
			break
		}
		for m := 1; m < s.blocks; m++ {
			add(func(b int) int {
				if b < m {
					return s.allowed[i+1]
				}
				return cut
			})
		}
	}
	last := len(s.allowed) - 1
	for per := 1; per <= 3; per++ {
		for late := range 2 {
			add(func(b int) int { return s.allowed[max(last+late-1-(b+per-1)/per, 0)] })
			add(func(b int) int { return s.allowed[max(last+late-1-(s.blocks-1-b)/per, 0)] })
		}
	}
	return all
}
