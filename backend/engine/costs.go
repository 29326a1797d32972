package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/graphswap"
)

// correction is the weight of the latest ratio of a lane's time to its estimate.
const correction = 0.3

// costs are what plans are made of: a model of the device that was given, or
// what each graph was measured to take when it was first loaded. How far they
// are off is learned from what plans turn out to take.
type costs struct {
	given *graphswap.Cost // nil: measured

	mu     sync.Mutex
	rows   []int // of the graphs, descending
	blocks []measured
	head   graphswap.MeasuredGraph
	// npu and io are the ratios of actual to estimated times.
	npu, io float64
	// full tells that the device had no room for a spare slot.
	full bool
}

func (c *costs) crowded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.full
}

// refused remembers that a load beside a block's other graph found no room.
func (c *costs) refused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full = true
}

func newCosts(given *graphswap.Cost, o Options, layers int) *costs {
	c := &costs{given: given, npu: 1, io: 1, rows: o.Rows, blocks: make([]measured, o.Blocks)}
	for i := range c.blocks {
		first, end := o.blockRange(i, layers)
		c.blocks[i] = measured{Layers: end - first, Widths: make(map[int]graphswap.MeasuredWidth)}
	}
	c.head.Widths = make(map[int]graphswap.MeasuredWidth)
	return c
}

// measured is a block's graphs that were ever loaded.
type measured graphswap.MeasuredGraph

// at is a graph's cost. One that is never loaded, because the plan has no use for
// it, takes as long as the other one does for as many rows.
func (m measured) at(rows int) graphswap.MeasuredWidth {
	w, known := m.Widths[rows]
	for other, o := range m.Widths {
		if !known {
			w = o
			w.RunMs *= max(1, float64(rows)/float64(other))
		}
	}
	return w
}

// warmups is how often a graph runs to be measured: the last time counts.
const warmups = 2

// measure is what a graph takes whose load has just taken some time: it runs on
// what its memory holds, which nobody reads.
func measure(ctx context.Context, s *step, load time.Duration) (w graphswap.MeasuredWidth, err error) {
	w.LoadMs, w.Bytes = milliseconds(took(s.program, backend.Timed.LoadCost, load)), s.program.SizeBytes()
	for range warmups {
		begin := time.Now()
		if err := s.program.Run(ctx, s.graph, s.bindings[0]); err != nil {
			return w, err
		}
		w.RunMs = milliseconds(took(s.program, backend.Timed.RunCost, time.Since(begin)))
	}
	return w, nil
}

// learn measures a form that was just loaded, unless that is known: graphs of a
// longer context are loaded beside passes, which have the device.
func (c *costs) learn(ctx context.Context, b *block, f *form, s *step, load time.Duration) error {
	if c == nil || c.given != nil { // no plans, or no need
		return nil
	}
	c.mu.Lock()
	_, known := c.blocks[b.index].Widths[f.rows]
	c.mu.Unlock()
	if known {
		return nil
	}
	w, err := measure(ctx, s, load)
	if err != nil {
		return fmt.Errorf("engine: measure %s: %w", s.graph, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocks[b.index].Widths[f.rows] = w
	return nil
}

// learnHead measures the head.
func (c *costs) learnHead(ctx context.Context, h *head) error {
	if c.given != nil {
		return nil
	}
	for i, s := range h.widths {
		w, err := measure(ctx, s, 0)
		if err != nil {
			return fmt.Errorf("engine: measure %s: %w", s.graph, err)
		}
		c.head.Widths[h.rows[i]] = w
	}
	return nil
}

// took is a call's time on the clock that plans go by: the device's, where that
// runs in its own time, else ours.
func took(p backend.Program, cost func(backend.Timed) backend.Cost, ours time.Duration) time.Duration {
	if t, ok := p.(backend.Timed); ok && cost(t).Virtual {
		return cost(t).Took
	}
	return ours
}

// source says in half a sentence what plans go by.
func (c *costs) source() string {
	switch {
	case c.given == nil:
		return "by what its graphs took as they were loaded"
	case c.given.Profile == nil:
		return ""
	}
	if c.given.Profile.Kind == graphswap.Measured {
		return "by the measured profile of this device and model"
	}
	return "by the " + c.given.Profile.Kind + " profile " + c.given.Profile.ID
}

// model is the cost model as it stands.
func (c *costs) model(name string, config modelSizes) *graphswap.Cost {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given != nil {
		return c.adjusted()
	}
	m := graphswap.Model{Layers: config.layers, Hidden: config.hidden, Vocab: config.vocab, Blocks: make([]graphswap.MeasuredGraph, len(c.blocks))}
	for i, b := range c.blocks {
		m.Blocks[i] = graphswap.MeasuredGraph{Layers: b.Layers, Widths: make(map[int]graphswap.MeasuredWidth)}
		for _, rows := range c.rows {
			m.Blocks[i].Widths[rows] = c.adjust(b.at(rows))
		}
		m.BodyBytes += b.at(c.rows[0]).Bytes
	}
	if len(c.head.Widths) > 0 {
		m.Head = &graphswap.MeasuredGraph{Widths: maps.Clone(c.head.Widths)}
	}
	p := &graphswap.Profile{
		Kind: graphswap.Measured, ID: name, Device: name,
		Compute: graphswap.Compute{TileRows: 1, RowContextRef: 1}, Load: graphswap.LoadCost{BandwidthGBps: 1, Slowdown: 1},
		Models: map[string]graphswap.Model{name: m},
	}
	return &graphswap.Cost{Profile: p, Name: name, Model: m}
}

// adjusted is the given cost. Where that was measured on this device, what plans
// turned out to take adjusts it; others stand for a device that is not there.
func (c *costs) adjusted() *graphswap.Cost {
	if p := c.given.Profile; p == nil || p.Kind != graphswap.Measured {
		return c.given
	}
	own := *c.given
	own.Model.Blocks = slices.Clone(own.Model.Blocks)
	for i := range own.Model.Blocks {
		b := &own.Model.Blocks[i]
		b.Widths = maps.Clone(b.Widths)
		for rows, w := range b.Widths {
			b.Widths[rows] = c.adjust(w)
		}
	}
	return &own
}

// adjust applies what was learned to a measurement.
func (c *costs) adjust(w graphswap.MeasuredWidth) graphswap.MeasuredWidth {
	w.LoadMs, w.RunMs, w.ShortMs = w.LoadMs*c.io, w.RunMs*c.npu, w.ShortMs*c.npu
	return w
}

// modelSizes are those that a cost model names.
type modelSizes struct{ layers, hidden, vocab int }

// correct learns from a plan that was carried out as it was foretold.
func (c *costs) correct(actual, foretold *graphswap.Timeline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if foretold.NPUBusyMs > 0 && actual.NPUBusyMs > 0 {
		c.npu *= 1 + correction*(actual.NPUBusyMs/foretold.NPUBusyMs-1)
	}
	a, f := loadMs(actual), loadMs(foretold)
	if a > 0 && f > 0 {
		c.io *= 1 + correction*(a/f-1)
	}
}

// loadMs is the loader's busy time.
func loadMs(t *graphswap.Timeline) (sum float64) {
	for _, task := range t.Tasks {
		if task.Kind == graphswap.Create {
			sum += task.EndMs - task.StartMs
		}
	}
	return sum
}
