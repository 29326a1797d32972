// Package estimate asks the vendor's compiler what a model will take on a chip,
// before there is one: it simulates the schedules of a layer and of the head in
// several widths, adds them up and writes them as a device profile.
//
// What comes out is the compiler's opinion at a high clock. It knows no driver,
// no heat and no other user of the memory, which it takes to give 90 % of its
// peak: good for ratios between graphs, too fast as times of a phone. Profiles
// made of it are marked estimated.
//
// One layer stands for all: the layers of a model have one shape, and what
// differs between them (a sliding window) is in the mask.
package estimate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/hexagon"
)

// Simulator is a device that predicts runs.
type Simulator interface {
	Estimate(ctx context.Context, g *backend.Graph, o hexagon.EstimateOptions) (hexagon.Estimate, error)
}

// Options say what to estimate.
type Options struct {
	Recipe  model.Recipe
	Rows    []int // widths, ascending
	Context int   // past tokens
	// HeadRows are the widths of the head. None means 1 and 32.
	HeadRows []int
	// Progress, when set, is told of each graph before it is simulated.
	Progress func(done, total int, graph string)
}

// Graph is the prediction for one graph.
type Graph struct {
	// Part is "layer" or "head".
	Part string  `json:"part"`
	Rows int     `json:"rows"`
	Us   float64 `json:"us"`
	// ReadBytes and WriteBytes go to and from the chip's memory, SpillBytes is
	// what the fast memory had no room for.
	ReadBytes  uint64 `json:"ddr_read_bytes"`
	WriteBytes uint64 `json:"ddr_write_bytes"`
	SpillBytes uint64 `json:"spill_bytes"`
	// WeightBytes are the graph's constants without the scales of finer grains,
	// CacheBytes its past keys and values.
	WeightBytes int64 `json:"weight_bytes"`
	CacheBytes  int64 `json:"cache_bytes"`
}

// Result is all of them.
type Result struct {
	Layers  int     `json:"layers"`
	Context int     `json:"context"`
	CoreMHz float64 `json:"core_mhz"`
	// MemoryGBps is what the simulation takes the memory to give.
	MemoryGBps float64 `json:"memory_gbps"`
	Graphs     []Graph `json:"graphs"`
}

// Run simulates a layer and the head of a model.
func Run(ctx context.Context, d Simulator, m *model.Model, o Options) (*Result, error) {
	if len(o.HeadRows) == 0 {
		o.HeadRows = []int{1, 32}
	}
	r := &Result{Layers: m.Config().Layers, Context: o.Context}
	total := len(o.Rows) + len(o.HeadRows)
	for i, rows := range slices.Concat(o.Rows, o.HeadRows) {
		part := "layer"
		if i >= len(o.Rows) {
			part = "head"
		}
		if o.Progress != nil {
			o.Progress(i, total, fmt.Sprintf("%s, %d rows", part, rows))
		}
		g, err := write(m, part, rows, o)
		if err != nil {
			return nil, fmt.Errorf("estimate: %w", err)
		}
		e, err := d.Estimate(ctx, g, hexagon.EstimateOptions{})
		if err != nil {
			return nil, fmt.Errorf("estimate: %w", err)
		}
		r.CoreMHz, r.MemoryGBps = e.MHz, e.MemoryGBps
		r.Graphs = append(r.Graphs, summary(part, rows, g, e))
	}
	return r, nil
}

// summary is what is kept of an estimate of a graph.
func summary(part string, rows int, g *backend.Graph, e hexagon.Estimate) Graph {
	weights, cache := sizes(g)
	return Graph{
		Part: part, Rows: rows, Us: e.Cycles / e.MHz, ReadBytes: e.ReadBytes, WriteBytes: e.WriteBytes, SpillBytes: e.SpillBytes,
		WeightBytes: weights, CacheBytes: cache,
	}
}

func write(m *model.Model, part string, rows int, o Options) (*backend.Graph, error) {
	name := fmt.Sprintf("%s_rows%d", part, rows)
	if part == "head" {
		return m.Head(model.Head{Name: name, Rows: rows, Recipe: o.Recipe})
	}
	return m.Block(model.Block{Name: name, First: 0, End: 1, Rows: rows, Context: o.Context, Recipe: o.Recipe})
}

// sizes sums up a graph's constants, of which the chip packs the significant bits,
// and its past keys and values.
func sizes(g *backend.Graph) (weights, cache int64) {
	for i := range g.Tensors {
		t := &g.Tensors[i]
		switch {
		case t.Kind == backend.Constant:
			weights += int64(t.PackedBytes())
		case t.Kind == backend.Input && strings.HasPrefix(t.Name, "past_"):
			cache += int64(t.SizeBytes())
		}
	}
	return weights, cache
}

// Find returns the prediction for a part and width.
func (r *Result) Find(part string, rows int) (Graph, bool) {
	i := slices.IndexFunc(r.Graphs, func(g Graph) bool { return g.Part == part && g.Rows == rows })
	if i < 0 {
		return Graph{}, false
	}
	return r.Graphs[i], true
}

// Rates are what follows for a whole model, without any cost of the host.
type Rates struct {
	// Decode is tokens a second at one row, Prefill at the best width that spills
	// next to nothing, which is Chunk, without the head.
	Decode  float64 `json:"decode_tokens_per_second"`
	Prefill float64 `json:"prefill_tokens_per_second"`
	Chunk   int     `json:"prefill_rows"`
	// Flat is the time of 32 rows over that of one, Reads what 32 rows read over
	// weights and cache, Spill what they spill; zero where they were not asked
	// for.
	Flat  float64 `json:"rows32_over_rows1"`
	Reads float64 `json:"rows32_reads_over_weights_and_cache"`
	Spill uint64  `json:"rows32_spill_bytes"`
}

// littleSpill is the share of a graph's reads that it may spill to be a width for
// prompts: what falls out of the fast memory is in its time, but where it is much,
// another user of the memory makes that time longer.
const littleSpill = 0.05

// Rates sums the graphs up.
func (r *Result) Rates() (s Rates) {
	for _, g := range r.Graphs {
		if g.Part != "layer" || float64(g.SpillBytes) > littleSpill*float64(g.ReadBytes) {
			continue
		}
		if rate := float64(g.Rows) / (g.Us * float64(r.Layers)) * 1e6; rate > s.Prefill {
			s.Prefill, s.Chunk = rate, g.Rows
		}
	}
	one, hasOne := r.Find("layer", 1)
	if head, ok := r.Find("head", 1); ok && hasOne {
		s.Decode = 1e6 / (one.Us*float64(r.Layers) + head.Us)
	}
	if wide, ok := r.Find("layer", 32); ok && hasOne {
		s.Flat = wide.Us / one.Us
		s.Reads = float64(wide.ReadBytes) / float64(wide.WeightBytes+wide.CacheBytes)
		s.Spill = wide.SpillBytes
	}
	return s
}
