package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// pool knows the sequences: what they hold and who uses them.
type pool struct {
	free chan struct{} // one element per sequence that nobody uses

	mu        sync.Mutex
	sequences []sequence
	clock     uint64
}

type sequence struct {
	tokens []int32 // committed
	busy   bool
	used   uint64 // when it was last given back
}

func newPool(n int) *pool {
	p := &pool{free: make(chan struct{}, n), sequences: make([]sequence, n)}
	for range n {
		p.free <- struct{}{}
	}
	return p
}

// acquire waits for a sequence and returns how many tokens of prompt it holds.
// With reuse it is the one that holds most, where that is at least half of what
// would otherwise be computed or thrown away; else the longest unused one.
// Callers are served in the order they came.
func (p *pool) acquire(ctx context.Context, prompt []int32, reuse bool) (index, common int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, fmt.Errorf("engine: %w", err)
	}
	select {
	case <-p.free:
	case <-ctx.Done():
		return 0, 0, fmt.Errorf("engine: wait for a sequence: %w", ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	index = -1
	worthwhile := false
	for i := range p.sequences {
		s := &p.sequences[i]
		if s.busy {
			continue
		}
		n, w := 0, false
		if reuse {
			n = commonPrefix(s.tokens, prompt)
			w = n > 0 && 2*n >= min(len(s.tokens), len(prompt))
		}
		var better bool
		switch {
		case index < 0 || w != worthwhile:
			better = index < 0 || w
		case w && n != common:
			better = n > common
		default:
			better = s.used < p.sequences[index].used
		}
		if better {
			index, common, worthwhile = i, n, w
		}
	}
	p.sequences[index].busy = true
	return index, common, nil
}

// release gives a sequence back.
func (p *pool) release(index int) {
	p.mu.Lock()
	p.clock++
	p.sequences[index].busy, p.sequences[index].used = false, p.clock
	p.mu.Unlock()
	p.free <- struct{}{}
}

// busy counts the sequences in use.
func (p *pool) busy() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sequences {
		if s.busy {
			n++
		}
	}
	return n
}

func (p *pool) length(index int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sequences[index].tokens)
}

func (p *pool) extend(index int, tokens []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sequences[index].tokens = append(p.sequences[index].tokens, tokens...)
}

func (p *pool) cut(index, length int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sequences[index].tokens = p.sequences[index].tokens[:length]
}

// copyOf returns nil for a sequence that is not there.
func (p *pool) copyOf(index int) []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if index < 0 || index >= len(p.sequences) {
		return nil
	}
	return slices.Clone(p.sequences[index].tokens)
}

func commonPrefix(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
