package graphswap

import (
	"maps"
	"slices"
)

// partition is a model cut into blocks, with the costs of each: by the formulas,
// or as they were measured.
type partition struct {
	cost     *Cost
	shares   []float64
	measured []MeasuredGraph // nil without measurements of this partition
}

func (c *Cost) partition(blocks int) partition {
	g := partition{cost: c, shares: c.Model.Shares(blocks)}
	if len(c.Model.Blocks) == blocks {
		g.measured = c.Model.Blocks
	}
	return g
}

// add adds one pass over a graph of so many rows to each block's time. Its
// context is the tokens before it and half of its own rows.
func (g partition) add(times []float64, rows, before int) {
	context := float64(before) + float64(rows)/2
	for b, share := range g.shares {
		if w, ok := g.width(b, rows); ok {
			times[b] += w.at(rows, context, g.cost.Profile.Compute.RowContextRef)
		} else {
			times[b] += g.cost.Exec(share, rows, context)
		}
	}
}

func (g partition) width(block, rows int) (MeasuredWidth, bool) {
	if g.measured == nil {
		return MeasuredWidth{}, false
	}
	w, ok := g.measured[block].Widths[rows]
	return w, ok
}

// loads returns each block's load time and size.
func (g partition) loads(rows int) (ms []float64, bytes []int64) {
	ms, bytes = make([]float64, len(g.shares)), make([]int64, len(g.shares))
	for b, share := range g.shares {
		if w, ok := g.width(b, rows); ok {
			ms[b], bytes[b] = w.LoadMs, w.Bytes
			continue
		}
		size := share * float64(g.cost.Model.BodyBytes)
		ms[b], bytes[b] = g.cost.Load(size), int64(size)
	}
	return ms, bytes
}

// heads is the head's time, which belongs to the last block, for so many rows of
// logits on graphs of some widths.
func (c *Cost) heads(widths []int, logits int) (ms float64) {
	for logits > 0 {
		rows := narrowest(widths, logits)
		ms += c.headRun(rows)
		logits -= rows
	}
	return ms
}

// narrowest is the first of ascending widths that holds some rows, or the last.
func narrowest(widths []int, rows int) int {
	for _, w := range widths {
		if w >= rows {
			return w
		}
	}
	return widths[len(widths)-1]
}

// headRun is the time of a graph of the head: as the narrowest that was measured
// and holds its rows, or as often as the widest where none does, or by the
// formula.
func (c *Cost) headRun(rows int) float64 {
	if c.Model.Head == nil || len(c.Model.Head.Widths) == 0 {
		return c.Head(rows)
	}
	measured := slices.Sorted(maps.Keys(c.Model.Head.Widths))
	w := narrowest(measured, rows)
	return float64((rows+w-1)/w) * c.Model.Head.Widths[w].RunMs
}
