package engine

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

// lanes keeps the NPU's lane and the loader's apart: a block is either run or
// exchanged, never both, and who finds its graph missing waits for it. Passes
// enter and leave each block; one execution at a time has a loader.
type lanes struct {
	mu      sync.Mutex
	changed chan struct{} // closed and made anew when anything below changes
	// running is the block that the NPU computes, or nil.
	running *block
	// on is the execution that is going on or was the last one.
	on *execution
	// failures counts executions whose loads failed since some did not.
	failures int
}

// maxFailures is after how many executions in a row graphs are exchanged no
// more: each cost its prompt a load that was for nothing.
const maxFailures = 3

// note counts how an execution's loads ended; the caller holds mu. A device that
// has restarted, or loads that were not wanted any more, say nothing of graphs.
// It reports whether this was the last execution.
func (l *lanes) note(x *execution, err error) (last bool) {
	switch {
	case err != nil && x.ctx.Err() == nil && !errors.Is(err, backend.ErrRestarted):
		l.failures++
		return l.failures == maxFailures
	case err == nil && slices.Contains(x.loaded, true):
		l.failures = 0
	}
	return false
}

func newLanes() *lanes { return &lanes{changed: make(chan struct{})} }

// change lets f change what others wait for.
func (l *lanes) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.tell()
}

func (l *lanes) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// wait returns when ready does, or with ctx. The caller holds mu, ready does too.
func (l *lanes) wait(ctx context.Context, ready func() bool) error {
	for !ready() {
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
			l.mu.Lock()
		case <-ctx.Done():
			l.mu.Lock()
			return fmt.Errorf("engine: %w", ctx.Err())
		}
	}
	return nil
}

// errNotResident is returned when a block has no graph in the device and none
// is on its way.
var errNotResident = errors.New("a block's graphs are lost: they are loaded again with the next request")

// enter chooses the form that runs a block's rows and keeps the loader from
// taking it away until leave. It waits while the form that the plan wants, or
// every form, is on its way. x is the execution that goes on, or nil, and began
// when the form was chosen.
func (l *lanes) enter(ctx context.Context, b *block, pl *plan) (f *form, x *execution, began time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := false
	err = l.wait(ctx, func() bool {
		var comes bool
		f, comes = l.choose(b, pl)
		lost = f == nil && !comes
		return f != nil || lost
	})
	switch {
	case err != nil:
		return nil, nil, began, err
	case lost:
		return nil, nil, began, fmt.Errorf("engine: block %d: %w", b.index, errNotResident)
	}
	l.running = b
	return f, l.on, time.Now(), nil
}

func (l *lanes) leave() { l.change(func() { l.running = nil }) }

// choose returns the form to run, or whether one is worth waiting for.
func (l *lanes) choose(b *block, pl *plan) (f *form, comes bool) {
	x := l.on
	want := graphswap.Both
	if x != nil {
		want = x.wants(b.index, pl)
	}
	switch want {
	case graphswap.G1, graphswap.G2:
		if f := b.form(want); f.step != nil {
			return f, false
		}
		if x.comes(b.index, want) {
			return nil, true
		}
	default:
		if f := b.form(b.latest); f != nil && f.step != nil && pl.chunk != unplanned {
			return f, false
		}
	}
	if f := b.fitting(pl.width); f != nil {
		return f, false
	}
	return nil, x != nil && x.comes(b.index, graphswap.Both)
}

// form is the block's long or short graph.
func (b *block) form(g graphswap.Graph) *form {
	switch g {
	case graphswap.G1:
		return b.forms[len(b.forms)-1]
	case graphswap.G2:
		return b.forms[0]
	}
	return nil
}

// resident is which of a block's two graphs are in the device.
func (b *block) resident() (g graphswap.Graph) {
	for _, one := range []graphswap.Graph{graphswap.G1, graphswap.G2} {
		if b.form(one).step != nil {
			g |= one
		}
	}
	return g
}

// residency is that of all blocks.
func (l *lanes) residency(f *family) []graphswap.Graph {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]graphswap.Graph, len(f.blocks))
	for i, b := range f.blocks {
		list[i] = b.resident()
	}
	return list
}

// begin makes x the execution and starts its loader, unless another one goes on.
// In virtual time there is no loader: whoever drives x makes its loads.
func (l *lanes) begin(x *execution, virtual bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.free() {
		return false
	}
	l.on = x
	l.tell()
	if !virtual {
		go x.load()
	}
	return true
}

// stop ends what goes on, after the load that runs, and waits for the loader.
func (l *lanes) stop() {
	l.mu.Lock()
	x := l.on
	if x != nil {
		x.cancel()
		x.aborted = true
		l.tell()
	}
	l.mu.Unlock()
	if x != nil {
		<-x.done
	}
}

// idle reports whether a plan may begin.
func (l *lanes) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.free()
}

// gaveUp reports whether loads failed too often.
func (l *lanes) gaveUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures >= maxFailures
}

// free reports whether there is no execution, or one of which nothing is left.
func (l *lanes) free() bool {
	return l.on == nil || l.on.over && (l.on.ended || l.on.aborted)
}
