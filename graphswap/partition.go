package graphswap

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
// context is the tokens before it and half of its own rows. The head belongs to
// the last block: it runs so many times, each for some rows of logits.
func (g partition) add(times []float64, rows, before, heads, logits int) {
	context := float64(before) + float64(rows)/2
	for b, share := range g.shares {
		if w, ok := g.width(b, rows); ok {
			times[b] += w.at(rows, context, g.cost.Profile.Compute.RowContextRef)
		} else {
			times[b] += g.cost.Exec(share, rows, context)
		}
	}
	if heads > 0 {
		times[len(times)-1] += float64(heads) * g.cost.headRun(logits)
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

// headRun is the head's time for so many rows of logits: measured in the
// narrowest graph that holds them, or by the formula.
func (c *Cost) headRun(logits int) float64 {
	if c.Model.Head != nil {
		best := 0
		for rows := range c.Model.Head.Widths {
			if rows >= logits && (best == 0 || rows < best) {
				best = rows
			}
		}
		if best > 0 {
			return c.Model.Head.Widths[best].RunMs
		}
	}
	return c.Head(logits)
}
