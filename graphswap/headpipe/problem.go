package headpipe

// Head holds the times of one head on the CPU. All times of a problem have one unit.
type Head struct{ TopK, Sparse float64 }

// Group is a number of heads whose scores one launch of the NPU estimates.
type Group struct {
	// Estimate is the time of the launch.
	Estimate float64
	Heads    []Head
}

// Problem is one layer's attention for one chunk.
type Problem struct {
	Groups []Group
	// OneCore is set if the selection of keys and the sparse attention share one core. Otherwise
	// each of them has a core of its own.
	OneCore bool
}

// Place names a head of a problem: the index of its group, and its index in the group.
type Place struct{ Group, Head int }

// Order lists all heads of a problem in the order in which the CPU treats them. The NPU launches
// a group before another one if a head of the group comes first.
type Order []Place

// lanes holds the times at which the three lanes become free.
type lanes struct{ npu, topK, sparse float64 }

// run treats one head whose scores are ready at a given time.
func (p *Problem) run(t lanes, h Head, ready float64) lanes {
	if p.OneCore {
		end := max(t.topK, ready) + h.TopK + h.Sparse
		return lanes{t.npu, end, end}
	}
	t.topK = max(t.topK, ready) + h.TopK
	t.sparse = max(t.sparse, t.topK) + h.Sparse
	return t
}

// Time returns the makespan of an order.
func (p *Problem) Time(order Order) float64 {
	var t lanes
	ready := make([]float64, len(p.Groups))
	launched := make([]bool, len(p.Groups))
	for _, at := range order {
		if !launched[at.Group] {
			launched[at.Group] = true
			t.npu += p.Groups[at.Group].Estimate
			ready[at.Group] = t.npu
		}
		t = p.run(t, p.Groups[at.Group].Heads[at.Head], ready[at.Group])
	}
	return t.sparse
}

// Sequential returns the heads in the order of the problem.
func (p *Problem) Sequential() (order Order) {
	for g, group := range p.Groups {
		for h := range group.Heads {
			order = append(order, Place{g, h})
		}
	}
	return order
}
