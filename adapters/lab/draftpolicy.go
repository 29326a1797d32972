package main

import (
	"runtime"
	"time"

	"github.com/sdnpu/sdnpu/adapters/lab/bench"
	"github.com/sdnpu/sdnpu/backend/engine"
)

// draftPolicy charges the times of a device for passes, if a device is set. The
// time of drafts is the processor time of their thread, which does not depend on
// other programs.
type draftPolicy struct {
	engine.Policy
	cost bench.PassCost
}

func (p draftPolicy) PassTime(rows int) time.Duration {
	if p.cost == nil {
		return p.Policy.PassTime(rows)
	}
	return time.Duration(p.cost(rows) * float64(time.Millisecond))
}

func (p draftPolicy) Stopwatch() (stop func() engine.Elapsed) {
	if thread := threadTime; thread != nil { // nil if the operating system does not report it
		return threadStopwatch(thread)
	}
	return p.Policy.Stopwatch()
}

// threadStopwatch returns a stopwatch that also measures the processor time of the
// calling thread. The goroutine stays on its thread until the stopwatch is stopped.
func threadStopwatch(thread func() time.Duration) (stop func() engine.Elapsed) {
	runtime.LockOSThread()
	cpu, began := thread(), time.Now()
	return func() engine.Elapsed {
		e := engine.Elapsed{Began: began, Wall: time.Since(began), CPU: thread() - cpu}
		runtime.UnlockOSThread()
		return e
	}
}
