package engine

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sdnpu/sdnpu/backend"
)

// reporter tells of the work on one image. Device calls last long and say
// nothing meanwhile, hence a goroutine with a clock.
type reporter struct {
	report  func(Progress)
	at      Progress // as it stood when the work began
	weights int64    // bytes of the image's constants
	filled  atomic.Int64
	bytes   atomic.Int64
	cached  atomic.Bool
	waiting atomic.Bool
	done    atomic.Bool
}

func newReporter(report func(Progress), at Progress, graphs []*backend.Graph) *reporter {
	at.Graph = imageName(graphs)
	return &reporter{report: report, at: at, weights: constantBytes(graphs)}
}

// imageName names graphs shortly: block0_rows{1,128}.
func imageName(graphs []*backend.Graph) string {
	names := make([]string, len(graphs))
	for i, g := range graphs {
		names[i], _, _ = strings.Cut(g.Name, shareMark)
	}
	prefix := names[0]
	if len(graphs) == 1 {
		return prefix
	}
	for _, name := range names[1:] {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	prefix = strings.TrimRight(prefix, "0123456789") // 1 and 128, not nothing and 28
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, prefix)
	}
	return prefix + "{" + strings.Join(names, ",") + "}"
}

// counted returns the graphs with constants that tell what is filled in, each
// once, and that end with ctx: a device looks at it once per graph at most.
func counted(ctx context.Context, graphs []*backend.Graph, filled func(bytes int)) []*backend.Graph {
	counted := make([]*backend.Graph, len(graphs))
	var known sync.Map
	for i, g := range graphs {
		c := *g
		c.Tensors = slices.Clone(g.Tensors)
		for j := range c.Tensors {
			t := &c.Tensors[j]
			fill, fillSteps, id := t.Values.Fill, t.Values.FillSteps, constantID(t)
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
			if fillSteps != nil {
				t.Values.FillSteps = func(dst []byte, steps []backend.Step) error {
					if err := tell(len(dst)); err != nil {
						return err
					}
					return fillSteps(dst, steps)
				}
			}
		}
		counted[i] = &c
	}
	return counted
}

// start reports, goes on every second, and returns what ends it.
func (r *reporter) start() (stop func()) {
	r.report(r.at)
	began := time.Now()
	tell := func() {
		p := r.at
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

// countBytes is a writer that only counts.
type countBytes struct{ n *atomic.Int64 }

func (c countBytes) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}
