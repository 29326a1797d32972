package engine

import (
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/arena"
	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/backend/engine/residency"
	"github.com/sdnpu/sdnpu/backend/engine/workload"
	"github.com/sdnpu/sdnpu/graphswap"
)

// shape describes into which graphs a model is cut, which of them are loaded at which
// time, and what the engine has learned about their times. Graph sets of several
// context tiers can have the same shape. Nothing changes the first group of fields
// after begin.
type shape struct {
	// rows holds the widths of the graphs, descending. blocks is the number of blocks.
	rows   []int
	blocks int
	// headRows are the widths of the head's graphs, ascending.
	headRows []int
	// plan is the plan that the engine carries out, or empty if all graphs stay loaded.
	// planName is plan without its suffix for the spare graph slot, which may require or
	// forbid one.
	plan, planName              string
	spareRequired, spareRefused bool
	// exact is the value of [Options].Exact.
	exact bool
	// start tells which graphs of each block are loaded before the first prompt, and
	// used which graphs are loaded at any time.
	start, used graphswap.Variant
	// separate is set if each graph gets its own image. deviceSwitches is set if QNN's
	// library swaps the graphs of one image.
	separate, deviceSwitches bool
	// reason explains why the engine chose this shape, if the options left it a choice.
	reason string

	// costs has its own lock, and is nil if no costs are measured.
	costs *residency.Costs
	// chunkOf holds, by the number of prompt tokens that are left, the rows of the next
	// pass. After the first request, nothing changes chunkOf.
	chunkOf []int
	// The device lock guards the times of passes. passTimes is on the device's clock, for
	// decisions, and hostTimes on the host's clock, for waiting.
	passTimes, hostTimes *workload.PassTimes
}

// settle derives from the shape's plan which graphs of each block are loaded, and
// whether each graph gets an image of its own.
func (s *shape) settle() {
	s.planName, s.spareRequired, s.spareRefused = graphswap.CutSpare(s.plan)
	s.start, s.used = planGraphs(s.plan)
	s.separate = s.plan != "" && s.plan != graphswap.PlanResident && !s.deviceSwitches
}

// begin completes a shape whose widths, blocks and plan are set. It creates the costs if
// plans or forecasts need them, computes the number of rows in a prompt pass, and creates
// empty records of the passes' times.
func (s *shape) begin(o *settings, device backend.Capabilities, layers int) {
	switch counts := s.blockLayers(layers); {
	case s.planned():
		s.costs = residency.NewCosts(o.Costs, s.rows, counts)
	case o.Forecast || o.mayChoose(device) && len(s.rows) == 2 && !o.knowsMemory():
		s.costs = residency.NewCosts(nil, s.rows, counts)
	}
	s.chunkOf = planChunks(s)
	s.passTimes, s.hostTimes = workload.NewPassTimes(s.rows), workload.NewPassTimes(s.rows)
}

// planned reports whether passes ask the switcher which graph of a block runs.
func (s *shape) planned() bool { return s.plan != "" }

// switchesGraphs reports whether plans may load and free graphs of the shape.
func (s *shape) switchesGraphs() bool {
	return s.planName == PlanAuto || graphswap.Switches(s.planName)
}

// moved tells the measured times of passes that graphs of another context tier run from
// now on, so that the next pass corrects all times.
func (s *shape) moved() {
	s.passTimes.Move()
	s.hostTimes.Move()
}

// chunkRows returns how many of n waiting prompt tokens the next pass takes.
func (s *shape) chunkRows(n int) int { return s.chunkOf[min(n, s.rows[0])] }

// widthFor returns the narrowest graph width that holds n rows.
func (s *shape) widthFor(n int) int {
	for _, w := range slices.Backward(s.rows) {
		if w >= n {
			return w
		}
	}
	panic(fmt.Sprintf("engine: no graph has %d rows", n))
}

// partRows returns the number of rows in a part of a pass. With a plan, the rows of the
// widest pass are cut into slices as wide as the decode graph; without a plan, passes
// are not cut.
func (s *shape) partRows() int {
	if s.planned() {
		return s.rows[len(s.rows)-1]
	}
	return s.rows[0]
}

// draftRows returns the largest number of rows of a pass with drafts; both the drafts
// and the tokens that they follow take rows.
func (s *shape) draftRows() int {
	if s.exact {
		return min(s.partRows(), s.exactRows())
	}
	return s.partRows()
}

// fullPass returns the largest number of tokens in a pass with drafts on graphs of a
// given width.
func (s *shape) fullPass(rows int) int { return min(rows, s.draftRows(), maxDrafts+1) }

// exactRows returns the graph width that computes each token after a prompt if exact is
// set.
func (s *shape) exactRows() int { return exactRows(s.plan, s.rows) }

// blockRange returns the layers [first, end) of a block.
func (s *shape) blockRange(block, layers int) (first, end int) {
	return images.BlockRange(block, s.blocks, layers)
}

// blockLayers returns the number of layers of each block.
func (s *shape) blockLayers(layers int) (counts []int) {
	for block := range s.blocks {
		first, end := s.blockRange(block, layers)
		counts = append(counts, end-first)
	}
	return counts
}

// aligned reports whether the rows of a pass can be cut into slices that are as wide as
// the decode graph. rowBytes is the size of a row of hidden states.
func aligned(rows []int, rowBytes int) bool { return rows[1]*rowBytes%arena.Alignment == 0 }

// residencyName returns the name of the shape's plan. If the shape has no plan,
// residencyName returns the name of the plan that has the same effect on the device.
func (s *shape) residencyName(c backend.Capabilities) string {
	switch {
	case s.plan != "":
		return s.plan
	case c.SharesConstants:
		return graphswap.PlanResident
	}
	return graphswap.PlanSeparate
}

// planGraphs returns which graphs of each block a plan loads before the first prompt,
// and which it loads at any time.
func planGraphs(plan string) (start, used graphswap.Variant) {
	switch name, _, _ := graphswap.CutSpare(plan); name {
	case "", graphswap.PlanSeparate, graphswap.PlanResident:
		return graphswap.Both, graphswap.Both
	case graphswap.PlanPrefillOnly:
		return graphswap.Prefill, graphswap.Prefill
	case graphswap.PlanDecodeOnly:
		return graphswap.Decode, graphswap.Decode
	}
	return graphswap.Prefill, graphswap.Both
}

// shapeFor returns a shape with the given widths, blocks and plan for the engine's model.
// The plan that shapeFor gets must not be library.
func (e *Engine) shapeFor(rows []int, blocks int, plan string) (*shape, error) {
	device := e.dev.Capabilities()
	o := e.options.Options
	o.Blocks = blocks
	r, err := o.resolveWith(e.config, device, plan, rows)
	if err != nil {
		return nil, err
	}
	if r.deviceErr != nil {
		return nil, r.deviceErr
	}
	s := r.shape
	s.begin(&r.settings, device, e.config.Layers)
	if !e.clock.Simulated() {
		s.passTimes.ShareChanges()
	}
	return &s, nil
}
