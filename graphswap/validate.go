package graphswap

import "fmt"

// Validate reports what makes a plan impossible to execute: a step before what
// it needs, a step whose graph is not there when its turn comes, a load that
// frees what is still to run, or a wait in a circle.
func (p *Plan) Validate() error {
	if err := p.shape(); err != nil {
		return err
	}
	if err := p.order(); err != nil {
		return err
	}
	return p.residency()
}

func (p *Plan) bad(format string, args ...any) error {
	return fmt.Errorf("graphswap: %w %q: %s", ErrPlan, p.Name, fmt.Sprintf(format, args...))
}

func (p *Plan) shape() error {
	if p.Blocks < 1 || len(p.Chunks) < 1 || len(p.Before) != p.Blocks || len(p.After) != p.Blocks || p.Rows2 < 1 {
		return p.bad("%d blocks, %d chunks, residency of %d before and %d after", p.Blocks, len(p.Chunks), len(p.Before), len(p.After))
	}
	if want := p.Blocks * len(p.Chunks); len(p.Steps) != want {
		return p.bad("%d steps, %d wanted", len(p.Steps), want)
	}
	for j, l := range p.Loads {
		if l.Block < 0 || l.Block >= p.Blocks || l.Graph != G1 && l.Graph != G2 || l.After < -1 || l.After >= len(p.Steps) {
			return p.bad("load %d: %+v", j, l)
		}
	}
	return nil
}

// order checks that a chunk enters a block after the block before, and after
// the chunk before it, whose keys and values it reads.
func (p *Plan) order() error {
	done := make([]int, p.Blocks) // per block: the next chunk
	for i, s := range p.Steps {
		if s.Block < 0 || s.Block >= p.Blocks || s.Chunk < 0 || s.Chunk >= len(p.Chunks) {
			return p.bad("step %d: %+v", i, s)
		}
		if s.Chunk != done[s.Block] || s.Block > 0 && done[s.Block-1] <= s.Chunk {
			return p.bad("step %d: chunk %d of block %d is not its turn", i, s.Chunk, s.Block)
		}
		done[s.Block]++
	}
	return nil
}

// residency walks through each block's steps and loads.
func (p *Plan) residency() error {
	now := append([]Graph(nil), p.Before...)
	released := make([]int, len(p.Loads)) // the last step that must end before a load can start
	latest := -1
	for j, l := range p.Loads {
		latest = max(latest, l.After)
		released[j] = latest
	}
	next := make([]int, p.Blocks) // per block: its next load, as an index into Loads
	for b := range next {
		next[b] = p.loadOf(b, 0)
	}
	for i, s := range p.Steps {
		b := s.Block
		for j := next[b]; j < len(p.Loads) && p.Loads[j].After < i; j = next[b] {
			if released[j] >= i {
				if p.Spare {
					break // it comes later; the step runs on what is there
				}
				return p.bad("step %d waits for load %d, which waits for step %d", i, j, released[j])
			}
			now[b], next[b] = p.Loads[j].Graph, p.loadOf(b, j+1)
		}
		if p.Spare && s.Graph == Both && p.Before[b] != None {
			continue
		}
		if s.Graph&now[b] == 0 {
			return p.bad("step %d: %s of block %d is not resident", i, s.Graph, b)
		}
	}
	for b, j := range next {
		for ; j < len(p.Loads); j = p.loadOf(b, j+1) {
			now[b] = p.Loads[j].Graph
		}
		if now[b] != p.After[b] {
			return p.bad("block %d ends with %s, not with %s", b, now[b], p.After[b])
		}
	}
	return nil
}

// loadOf finds the next load of a block, len(Loads) for none.
func (p *Plan) loadOf(block, from int) int {
	for j := from; j < len(p.Loads); j++ {
		if p.Loads[j].Block == block {
			return j
		}
	}
	return len(p.Loads)
}
