package graphswap

// exact finds the best cuts in one order by depth-first search: at the end of
// each step a block leaves its long graph or does not. What cannot beat the best
// so far is cut off. It is for blocks that begin on G1.
type exact struct {
	*search
	switched []bool
	at       cuts
	best     score
	bestAt   cuts
	unloaded float64 // loads of the blocks that have not switched
	// rest is per block and chunk the time from that chunk on, on G1 and on G2.
	restLong, restShort [][]float64
	left                float64 // a bound of the NPU's remaining time
}

// best returns the best cuts in the search's order, given some to beat: the
// best of those that it reaches with the effort that is left.
func (s *search) best(known candidate) candidate {
	e := &exact{
		search: s, switched: make([]bool, s.blocks), best: known.score, bestAt: known.at.clone(),
		at: cuts{make([]int, s.blocks), make([]int, s.blocks)}, unloaded: s.loads,
	}
	for b := range s.blocks {
		long, short := s.rests(b)
		e.restLong, e.restShort = append(e.restLong, long), append(e.restShort, short)
		e.left += long[0]
	}
	clear(s.ready)
	e.begin(0, 0)
	if e.best.end == known.score.end {
		return known
	}
	return candidate{search: s, at: e.bestAt, score: s.eval(e.bestAt, never)}
}

// begin chooses the blocks that switch before the first chunk.
func (e *exact) begin(b int, io float64) {
	if b == e.blocks {
		e.step(0, 0, io)
		return
	}
	e.begin(b+1, io)
	e.leave(b, 0, 0, io, func(io float64) { e.begin(b+1, io) })
}

// leave switches a block at a cut for the time of a call.
func (e *exact) leave(b, cut int, now, io float64, then func(io float64)) {
	load := e.problem.Load[1][b]
	more := e.restShort[b][cut] - e.restLong[b][cut]
	ready := e.ready[b]
	e.switched[b], e.at.down[b], e.unloaded, e.left = true, cut, e.unloaded-load, e.left+more
	e.ready[b] = max(io, now) + load
	then(e.ready[b])
	e.switched[b], e.unloaded, e.left, e.ready[b] = false, e.unloaded+load, e.left-more, ready
}

// step runs leg i at a time and goes on from there.
func (e *exact) step(i int, now, io float64) {
	if i == len(e.legs) {
		if end := max(now, io); end < e.best.end-closer {
			e.best, e.bestAt = score{end: end}, e.at.clone()
		}
		return
	}
	if *e.effort--; *e.effort < 0 {
		return
	}
	bound := now + e.left
	if e.unloaded > 0 {
		bound = max(bound, max(io, now)+e.unloaded)
	}
	if max(bound, io) >= e.best.end-closer {
		return
	}
	l := &e.legs[i]
	if e.switched[l.block] {
		if e.at.down[l.block] == l.first {
			now = max(now, e.ready[l.block])
		}
		end := now + e.time(l.short, l.shortRuns, now, io)
		spent := e.restShort[l.block][l.first] - e.restShort[l.block][l.end]
		e.left -= spent
		e.step(i+1, end, io)
		e.left += spent
		return
	}
	end := now + e.time(l.long, l.longRuns, now, io)
	spent := e.restLong[l.block][l.first] - e.restLong[l.block][l.end]
	e.left -= spent
	if l.end < e.chunks {
		e.step(i+1, end, io)
	}
	e.leave(l.block, l.end, end, io, func(io float64) { e.step(i+1, end, io) })
	e.left += spent
}

// time is that of a leg which begins while the loader is busy until io.
func (s *search) time(total float64, count int, now, io float64) float64 {
	if s.slow > 1 && now < io {
		return slowed(total, count, now, io, s.slow)
	}
	return total
}

// rests are the least times of a block from each chunk on: from G1, and on G2.
func (s *search) rests(b int) (long, short []float64) {
	long, short = make([]float64, s.chunks+1), make([]float64, s.chunks+1)
	for c := s.chunks - 1; c >= 0; c-- {
		short[c] = short[c+1] + s.problem.D[c][b]
		long[c] = min(long[c+1]+s.problem.P[c][b], short[c])
	}
	return long, short
}
