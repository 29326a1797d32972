package backend

import "time"

// Cost is what a call took by the device's own account.
type Cost struct {
	// Took is its time on the device's clock, which need not be the caller's: an
	// emulator may charge the time of another device.
	Took time.Duration
	// Overrun is by how much the call lasted longer than an emulator that keeps
	// time wanted it to: a measurement with overruns says less than one without.
	Overrun time.Duration
	// Paced says whose time Took is where it is not the device's own, and what
	// that rests on: "sd8gen2 (fitted) as qwen2.5-1.5b".
	Paced string
	// Virtual tells that the call did not last: who wants to see calls overlap
	// must let the clock run.
	Virtual bool
	// Scale is by how much a paced call lasts longer than Took; 0 for one that
	// does not last, or is not paced.
	Scale float64
}

// Timed is a [Program] whose device accounts for its calls. Devices that can
// are asked for it when they are opened.
type Timed interface {
	// LoadCost is that of the load that made the program.
	LoadCost() Cost
	// RunCost is that of the last run.
	RunCost() Cost
}
