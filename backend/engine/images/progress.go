package images

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sdnpu/sdnpu/backend"
)

// Progress tells how much of the images is compiled and loaded.
type Progress struct {
	// Done of Total images are ready.
	Done, Total int
	// Graph names the graph in work, or several of one image: block0_rows{1,128}.
	Graph string
	// WeightsDone of Weights bytes of constants are in images.
	WeightsDone, Weights int64
	// Bytes is the size of the image that is written so far.
	Bytes int64
	// Elapsed is the time spent on the image.
	Elapsed time.Duration
	// Waiting is set while another process compiles the image.
	Waiting bool
	// Cached is set if the image came from the cache and was not compiled.
	Cached bool
}

// reporter reports the progress of one image. Device calls last long and report
// nothing, so a goroutine reports once a second. Its atomic fields are set by the
// goroutine of the loader.
type reporter struct {
	report  func(Progress)
	base    Progress // the state when the work on the image began
	weights int64    // bytes of the image's constants
	filled  atomic.Int64
	bytes   atomic.Int64
	cached  atomic.Bool
	waiting atomic.Bool
	done    atomic.Bool
}

func newReporter(report func(Progress), base Progress, graphs []*backend.Graph) *reporter {
	base.Graph = Name(graphs)
	return &reporter{report: report, base: base, weights: ConstantBytes(graphs)}
}

// start reports the begin of the work, and then the progress each second until the
// caller calls stop.
func (r *reporter) start() (stop func()) {
	r.report(r.base)
	began := time.Now()
	tell := func() {
		p := r.base
		p.Bytes, p.Cached, p.Waiting, p.Elapsed = r.bytes.Load(), r.cached.Load(), r.waiting.Load(), time.Since(began)
		if r.done.Load() {
			p.Done++
			p.WeightsDone += r.weights
		} else {
			p.WeightsDone += r.filled.Load()
		}
		r.report(p)
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				tell()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
		if r.done.Load() {
			tell()
		}
	}
}

// countFills returns the graphs with constants that call filled once each when
// they are written, and that fail once ctx has ended: a device checks ctx at most
// once per graph.
func countFills(ctx context.Context, graphs []*backend.Graph, filled func(bytes int)) []*backend.Graph {
	counted := make([]*backend.Graph, len(graphs))
	var known sync.Map
	for i, g := range graphs {
		c := *g
		c.Tensors = slices.Clone(g.Tensors)
		for j := range c.Tensors {
			t := &c.Tensors[j]
			fill, fillScaled, id := t.Values.Fill, t.Values.FillScaled, constantID(t)
			tell := func(size int) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				if _, again := known.LoadOrStore(id, true); !again {
					filled(size)
				}
				return nil
			}
			if fill != nil {
				t.Values.Fill = func(dst []byte) error {
					if err := tell(len(dst)); err != nil {
						return err
					}
					return fill(dst)
				}
			}
			if fillScaled != nil {
				t.Values.FillScaled = func(dst []byte, scales []backend.ScaleOffset) error {
					if err := tell(len(dst)); err != nil {
						return err
					}
					return fillScaled(dst, scales)
				}
			}
		}
		counted[i] = &c
	}
	return counted
}

// countBytes is a writer that only counts.
type countBytes struct{ n *atomic.Int64 }

func (c countBytes) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}
