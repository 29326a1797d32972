package graphswap

// exactSlot finds the best loads beside a spare slot in one order of the NPU's
// work: all orders of loads, each starting when the slot is free or at the end
// of any later step. It is for blocks that begin on G1.
type exactSlot struct {
	*slotSearch
	loads, bestLoads []Load
	best             float64
	unloaded         float64
	rest             [][2][]float64 // per block: from each chunk on, on G1 at best and on G2
	left             float64        // a bound of the NPU's remaining time
}

// best returns the best loads in the search's order, given some to beat:
// the best of those that it reaches with the effort that is left.
func (s *slotSearch) best(known candidate) candidate {
	e := &exactSlot{slotSearch: s, best: known.score.end, bestLoads: known.loads, unloaded: s.search.loads}
	for b := range s.blocks {
		long, short := s.rests(b)
		e.rest = append(e.rest, [2][]float64{long, short})
		e.left += long[0]
	}
	clear(s.switched)
	e.idle(0, 0, 0, slotRun{block: -1})
	if e.best == known.score.end {
		return known
	}
	return candidate{search: s, loads: e.bestLoads, score: s.eval(e.bestLoads, never)}
}

// slotRun is a load under way; block -1 stands for none.
type slotRun struct {
	block int
	end   float64
}

// idle stands before step i at a time, all loads settled: begin one or do not.
func (e *exactSlot) idle(i int, now, free float64, run slotRun) {
	if *e.effort--; *e.effort < 0 {
		return
	}
	io := max(free, now)
	if run.block >= 0 {
		io = run.end
	}
	if max(now+e.left, io+e.unloaded) >= e.best-closer {
		return
	}
	if run.block < 0 {
		e.beginEach(i, max(free, now), func(run slotRun) { e.step(i, now, free, run) })
	}
	e.step(i, now, free, run)
}

// beginEach begins each load that is left, behind step i-1.
func (e *exactSlot) beginEach(i int, at float64, then func(slotRun)) {
	for b := range e.blocks {
		if e.begun(b) {
			continue
		}
		load := e.problem.Load[1][b]
		e.loads = append(e.loads, Load{Block: b, Graph: G2, After: i - 1})
		e.unloaded -= load
		then(slotRun{b, at + load})
		e.unloaded += load
		e.loads = e.loads[:len(e.loads)-1]
	}
}

func (e *exactSlot) begun(b int) bool {
	for _, l := range e.loads {
		if l.Block == b {
			return true
		}
	}
	return false
}

// step runs step i and settles the loads that end during it.
func (e *exactSlot) step(i int, now, free float64, run slotRun) {
	if i == len(e.legs) {
		e.finish(now, free, run)
		return
	}
	l := &e.legs[i]
	kind, time, count := 0, l.long, l.longRuns
	if e.switched[l.block] {
		kind, time, count = 1, l.short, l.shortRuns
	}
	busy := 0.0
	if run.block >= 0 {
		busy = run.end
	}
	end := now + e.time(time, count, now, busy)
	rest := e.rest[l.block][kind]
	spent := rest[l.first] - rest[l.end]
	e.left -= spent
	e.during(i, end, free, run)
	e.left += spent
}

// during settles what ends while step i runs, until it ends.
func (e *exactSlot) during(i int, end, free float64, run slotRun) {
	if run.block < 0 || run.end > end {
		e.idle(i+1, end, free, run)
		return
	}
	done := run.block
	free = run.end
	if e.legs[i].block == done && !e.switched[done] {
		free = end // the slot is taken while the block runs on
	}
	was := e.switched[done]
	e.switched[done] = true
	more := 0.0
	if next := e.nextChunk(done, i); next < e.chunks {
		more = e.rest[done][1][next] - e.rest[done][0][next]
	}
	e.left += more
	if free < end {
		e.beginEach(i, free, func(run slotRun) { e.during(i, end, free, run) })
	}
	e.idle(i+1, end, free, slotRun{block: -1})
	e.left -= more
	e.switched[done] = was
}

// nextChunk is the first chunk that a block runs behind step i.
func (e *exactSlot) nextChunk(block, i int) int {
	for j := i + 1; j < len(e.legs); j++ {
		if e.legs[j].block == block {
			return e.legs[j].first
		}
	}
	return e.chunks
}

// finish loads the rest, in any order, after the last step.
func (e *exactSlot) finish(now, free float64, run slotRun) {
	io := free
	if run.block >= 0 {
		io = run.end
	}
	if e.unloaded > 0 {
		io = max(io, now) + e.unloaded
	}
	if end := max(now, io); end < e.best-closer {
		e.best = end
		e.bestLoads = append([]Load(nil), e.loads...)
		for b := range e.blocks {
			if !e.begun(b) {
				e.bestLoads = append(e.bestLoads, Load{Block: b, Graph: G2, After: len(e.legs) - 1})
			}
		}
	}
}
