package engine

import (
	"sync/atomic"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/graphswap"
)

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
		IO: time.Duration(e.activity.io.Load()) + e.switcher.LoadTime(), Memory: e.Memory(), Context: f.context, Widths: f.shape.Rows,
	}
	s.Loaded = len(f.Blocks) * len(f.shape.Rows)
	if f.shape.Planned() {
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

// Memory returns the memory that the engine uses now. The result changes when the
// context grows.
func (e *Engine) Memory() Memory {
	f := e.graphs.Load()
	return Memory{
		Programs: f.ProgramBytes() + images.TotalBytes(f.head.images),
		Cache:    f.memory.Cache().SizeBytes(),
		IO:       f.memory.IOBytes() + f.head.memory.sizeBytes(),
	}
}
