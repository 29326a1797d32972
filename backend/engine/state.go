package engine

import (
	"sync/atomic"
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
)

// State describes the work of an engine since its start, and the memory and graphs that
// the engine holds now. All times are times of this machine's clock.
type State struct {
	// Passes counts the passes of all blocks and the head.
	Passes int64
	// NPU is the time in which graphs ran, IO the time in which images were loaded after
	// the start, and CPU the time that requests spent on drafts, draws and calibration.
	NPU, IO, CPU time.Duration
	// Memory is the memory in use. Context is the context tier of the loaded graphs, and
	// Widths lists the widths of the graphs, descending.
	Memory  Memory
	Context int
	Widths  []int
	// Resident tells for each block which of its graphs are loaded. If no plan switches
	// graphs, all graphs of all widths are loaded, and Resident is nil.
	Resident []graphswap.Variant
	// Loaded counts the loaded block graphs.
	Loaded int
}

// activity counts the work of an engine. activity is safe for concurrent use.
type activity struct {
	passes atomic.Int64
	// The times are in nanoseconds. io counts the loads of longer contexts; the switcher
	// counts all other loads.
	npu, io, cpu atomic.Int64
}

// State returns the engine's work since its start, and the memory and graphs that the
// engine holds now. State takes no lock that a pass holds.
func (e *Engine) State() State {
	f := e.graphs.Load()
	s := State{
		Passes: e.activity.passes.Load(), NPU: time.Duration(e.activity.npu.Load()), CPU: time.Duration(e.activity.cpu.Load()),
		IO: time.Duration(e.activity.io.Load()) + e.switcher.LoadTime(), Memory: e.Memory(), Context: f.context, Widths: f.shape.rows,
	}
	s.Loaded = len(f.Blocks) * len(f.shape.rows)
	if f.shape.planned() {
		s.Resident, s.Loaded = e.switcher.Resident(f.Set), 0
		for _, v := range s.Resident {
			for _, one := range []graphswap.Variant{graphswap.Prefill, graphswap.Decode} {
				if v&one != 0 {
					s.Loaded++
				}
			}
		}
	}
	return s
}
