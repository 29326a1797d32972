package backend

import "time"

// This file has the interfaces that a device or a program may implement in
// addition. The engine asks for them with a type assertion.

// Binder is a [Program] whose device must register memory before it uses it. Bind
// registers the memory of bindings ahead of the first run with them. It may be
// called while other programs run. The error wraps [ErrNoMemory] if there is no
// room.
type Binder interface {
	Bind(graph string, bindings []Binding) error
}

// Timed is a [Program] whose device measures its calls. Devices that can measure
// do so if an option asks for it when they are opened.
type Timed interface {
	// LoadCost returns the cost of the call that loaded the program.
	LoadCost() Cost
	// RunCost returns the cost of the last run.
	RunCost() Cost
}

// Cost is the time of a call as the device measures it.
type Cost struct {
	// Took is the time on the device's clock, which may differ from the caller's:
	// an emulator may charge the time of another device.
	Took time.Duration
	// Overrun is the time by which the call lasted longer than an emulator that
	// keeps time intended. Measurements with overruns are less reliable.
	Overrun time.Duration
	// Paced names the source of Took if it is not the device's own time, for
	// example "sd8gen2 (fitted) as qwen2.5-1.5b".
	Paced string
	// Virtual reports that the call returned at once, without lasting for Took. To
	// see calls overlap, let the emulator's clock run.
	Virtual bool
	// Scale is the factor by which a paced call lasts longer than Took, or 0 if the
	// call is not paced or returned at once.
	Scale float64
}

// Powered is a [Device] that accepts votes for its clocks. The engine calls Vote
// when the phase changes, from one goroutine at a time. [Idle] withdraws the vote.
// A device without such votes returns [errors.ErrUnsupported].
type Powered interface {
	Vote(p Phase) error
}

// Phase is the kind of work that a device is about to get.
type Phase string

// The phases.
const (
	Prefill Phase = "prefill" // wide passes, limited by arithmetic
	Verify  Phase = "verify"  // passes that verify drafts
	Decode  Phase = "decode"  // passes of one or two tokens, limited by memory
	Idle    Phase = "idle"    // no work
)
