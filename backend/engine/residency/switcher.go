package residency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Switcher lets passes run block graphs while the loader of a plan run switches
// others. A pass acquires each block and releases it.
type Switcher struct {
	// mu guards the fields below, the changing fields of every [Run], and
	// BlockGraph.bound.
	mu sync.Mutex
	// changed is closed and replaced when anything that mu guards changes.
	changed chan struct{}
	// busyBlock is the block that the NPU computes, or nil.
	busyBlock *Block
	// plan is the plan run that is in work, or the last one.
	plan *Run
	// failures counts the runs whose loads failed since the last successful ones.
	failures int
}

// maxFailures consecutive failed plan runs disable graph switching: each cost its
// prompt a useless load.
const maxFailures = 3

// ErrNotResident is returned when a block has no loaded graph and none will be
// loaded.
var ErrNotResident = errors.New("a block's graphs are lost: they are loaded again with the next request")

// NewSwitcher returns a switcher without a plan run.
func NewSwitcher() *Switcher { return &Switcher{changed: make(chan struct{})} }

// countFailure counts whether the loads of a run failed; the caller holds mu. A
// restarted device, or a cancelled run, counts neither way. It reports whether this
// failure disables switching.
func (s *Switcher) countFailure(x *Run, err error) (last bool) {
	switch {
	case err != nil && x.ctx.Err() == nil && !errors.Is(err, backend.ErrRestarted):
		s.failures++
		return s.failures == maxFailures
	case err == nil && slices.Contains(x.loaded, true):
		s.failures = 0
	}
	return false
}

// update calls f with the lock held and wakes all waiting goroutines.
func (s *Switcher) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.broadcast()
}

// broadcast wakes all waiting goroutines. The caller holds mu.
func (s *Switcher) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait blocks until ready returns true or ctx ends. The caller holds mu, and so does
// each call of ready.
func (s *Switcher) wait(ctx context.Context, ready func() bool) error {
	for !ready() {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
			s.mu.Lock()
		case <-ctx.Done():
			s.mu.Lock()
			return fmt.Errorf("engine: %w", ctx.Err())
		}
	}
	return nil
}

// Acquire chooses the graph that runs a block's rows, and keeps the loader from
// freeing it until Release. chunk is the chunk of the plan that the pass computes, or
// [Unplanned], and width the rows that the graph should hold.
//
// Acquire chooses the graph that the plan names for the block. If the plan names none,
// it chooses the block's last loaded graph for a chunk of a plan. In all other cases
// it chooses the narrowest loaded graph, see [Block.Narrowest]. It blocks while
// the graph that the plan needs, or the block's only graph, is being loaded. It
// returns the current plan run, which may be nil, and the time when it chose.
func (s *Switcher) Acquire(ctx context.Context, b *Block, chunk, width int) (g *BlockGraph, x *Run, began time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := false
	err = s.wait(ctx, func() bool {
		var loading bool
		g, loading = s.choose(b, chunk, width)
		lost = g == nil && !loading
		return g != nil || lost
	})
	switch {
	case err != nil:
		return nil, nil, began, err
	case lost:
		return nil, nil, began, fmt.Errorf("engine: block %d: %w", b.Index, ErrNotResident)
	}
	s.busyBlock = b
	return g, s.plan, time.Now(), nil
}

// Release ends the run of the acquired block.
func (s *Switcher) Release() { s.update(func() { s.busyBlock = nil }) }

// choose returns the graph to run, or reports that one is worth waiting for.
func (s *Switcher) choose(b *Block, chunk, width int) (g *BlockGraph, loading bool) {
	x := s.plan
	want := graphswap.Both
	if x != nil {
		want = x.wants(b.Index, chunk)
	}
	switch want {
	case graphswap.Prefill, graphswap.Decode:
		if g := b.Graph(want); g.bound != nil {
			return g, false
		}
		if x.willLoad(b.Index, want) {
			return nil, true
		}
	default:
		if g := b.Graph(b.latest); g != nil && g.bound != nil && chunk != Unplanned {
			return g, false
		}
	}
	if g := b.Narrowest(width); g != nil {
		return g, false
	}
	return nil, x != nil && x.willLoad(b.Index, graphswap.Both)
}

// Resident returns which graphs of each block of a set are loaded.
func (s *Switcher) Resident(set *Set) []graphswap.Variant {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]graphswap.Variant, len(set.Blocks))
	for i, b := range set.Blocks {
		list[i] = b.resident()
	}
	return list
}

// Begin makes x the current run and starts its loader. It reports false if another
// run is in work. In virtual time there is no loader: the caller makes the loads.
func (s *Switcher) Begin(x *Run, virtual bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isFree() {
		return false
	}
	if x.idle {
		if x.before = s.plan; x.before != nil && x.before.idle {
			x.before = x.before.before
		}
	}
	s.plan = x
	s.broadcast()
	if !virtual {
		go x.runLoads()
	}
	return true
}

// Stop cancels the current run and waits until the load in progress has ended.
func (s *Switcher) Stop() {
	s.mu.Lock()
	x := s.plan
	if x != nil {
		x.cancel()
		x.noMoreLoads = true
		s.broadcast()
	}
	s.mu.Unlock()
	if x != nil {
		<-x.done
	}
}

// CanBegin reports whether a run may begin.
func (s *Switcher) CanBegin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isFree()
}

// isFree reports whether there is no run, or a finished one. The caller holds mu.
func (s *Switcher) isFree() bool {
	return s.plan == nil || s.plan.loaderDone && (s.plan.promptDone || s.plan.noMoreLoads)
}

// Disabled reports whether loads failed too often.
func (s *Switcher) Disabled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures >= maxFailures
}

// Active returns the current run while its prompt is being computed, else nil.
func (s *Switcher) Active() *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.plan; x != nil && !x.promptDone && !x.noMoreLoads {
		return x
	}
	return nil
}

// Last returns the run that is in work, or the last one, or nil.
func (s *Switcher) Last() *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plan
}

// LastPromptRun returns the current or last run that belongs to a prompt, or nil.
func (s *Switcher) LastPromptRun() *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plan != nil && s.plan.idle {
		return s.plan.before
	}
	return s.plan
}

// AbortIdleLoads lets no further load of an idle run begin. The load in work goes to
// its end.
func (s *Switcher) AbortIdleLoads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.plan; x != nil && x.idle && !x.loaderDone {
		x.noMoreLoads = true
		s.broadcast()
	}
}

// WaitForIdleLoad blocks until an idle run has ended, so that what is loaded no
// longer changes.
func (s *Switcher) WaitForIdleLoad(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wait(ctx, func() bool { return s.plan == nil || !s.plan.idle || s.plan.loaderDone })
}
