// Package sequences keeps the tokens of each sequence, and assigns sequences to
// requests.
//
// A sequence consists of the tokens of one conversation whose keys and values are in
// the KV cache. Package kvcache owns the cache itself; a [Pool] only knows the number
// and the tokens of the slots in use. A request acquires a sequence, preferably one
// that begins like its prompt, extends it as tokens are committed, and releases it. The
// tokens of a released sequence stay in it for the next request.
//
// # Invariants
//
//   - a sequence has one user at a time, and only its user changes it;
//   - requests that wait are served in the order in which they came.
//
// Several goroutines may call all methods of a Pool. Pool.mu guards the sequences and
// is never held while a request waits. Acquire compares the prompt with the tokens of
// each free sequence. The cost of every method except Acquire is at most one copy of
// the tokens.
package sequences

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Pool manages a fixed number of sequences. [NewPool] creates a Pool.
type Pool struct {
	free chan struct{} // free is a channel with one element for each free sequence

	mu        sync.Mutex
	sequences []sequence // sequences is guarded by mu
	clock     uint64     // clock, guarded by mu, is the number of releases so far
}

type sequence struct {
	tokens []int32 // committed
	prompt int     // prompt is the length of the last request's prompt
	busy   bool
	used   uint64 // used is the value of Pool.clock when the sequence was last released
}

// NewPool returns a pool of n empty sequences.
func NewPool(n int) *Pool {
	p := &Pool{free: make(chan struct{}, n), sequences: make([]sequence, n)}
	for range n {
		p.free <- struct{}{}
	}
	return p
}

// Acquire waits for a free sequence. Acquire returns the index of the sequence and the
// number of the prompt's first tokens that the request may reuse (see reusable). If
// reuse is set, Acquire prefers the sequence with the most tokens in common with the
// prompt, if these are at least half of the sequence or half of the prompt, whichever
// is shorter. If no sequence has that much in common, Acquire returns the free sequence
// that was released first.
func (p *Pool) Acquire(ctx context.Context, prompt []int32, reuse bool) (index, common int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, fmt.Errorf("engine: %w", err)
	}
	select {
	case <-p.free:
	case <-ctx.Done():
		return 0, 0, fmt.Errorf("engine: wait for a free sequence: %w", ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	index = -1
	worthwhile := false // worthwhile is set if the sequence and the prompt have enough tokens in common
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
	s := &p.sequences[index]
	common = s.reusable(common, len(prompt))
	s.busy, s.prompt = true, len(prompt)
	return index, common, nil
}

// Reuse of a cached prefix may end only at multiples of reuseStep tokens.
const reuseStep = 32

// reusable returns how many of the tokens that a sequence and a prompt have in common
// may be reused. A client sees the number of reused tokens in the report and in the
// time to the first token. If reuse could end at any token, a client could guess the
// prompt of an earlier request one token at a time: the number of reused tokens tells
// whether the last token was right. Because reuse ends at multiples of reuseStep, a
// client has to guess reuseStep tokens at once, or the rest of the prompt or of the
// whole text.
//
// The usual next requests lose nothing by this rule: one that continues the whole text,
// and one that repeats the prompt. Other requests compute at most reuseStep-1 tokens
// again.
func (s *sequence) reusable(common, prompt int) int {
	if common == len(s.tokens) || common == prompt && common == s.prompt {
		return common
	}
	return common - common%reuseStep
}

// Release makes a sequence free for another request. The tokens of the sequence stay.
func (p *Pool) Release(index int) {
	p.mu.Lock()
	p.clock++
	p.sequences[index].busy, p.sequences[index].used = false, p.clock
	p.mu.Unlock()
	p.free <- struct{}{}
}

// Busy returns the number of sequences that requests use now.
func (p *Pool) Busy() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sequences {
		if s.busy {
			n++
		}
	}
	return n
}

// Len returns the number of tokens in a sequence.
func (p *Pool) Len(index int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sequences[index].tokens)
}

// Lengths returns the number of tokens in each sequence.
func (p *Pool) Lengths() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := make([]int, len(p.sequences))
	for i, s := range p.sequences {
		n[i] = len(s.tokens)
	}
	return n
}

// Extend appends committed tokens to a sequence.
func (p *Pool) Extend(index int, tokens []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sequences[index].tokens = append(p.sequences[index].tokens, tokens...)
}

// Cut removes a sequence's tokens from index length on.
func (p *Pool) Cut(index, length int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sequences[index].tokens = p.sequences[index].tokens[:length]
}

// Tokens returns a copy of a sequence's tokens, or nil if the sequence does not exist.
func (p *Pool) Tokens(index int) []int32 {
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
