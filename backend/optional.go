package backend

import "time"

// optional.go contains the interfaces that a device or a program may implement
// in addition to [Device] and [Program]. The engine finds out with a type
// assertion whether a device implements these interfaces.

// Binder is a [Program] whose device must register memory before it can use the memory.
// Bind registers the memory of bindings, so that the first run with these bindings need
// not do it. Bind may be called while other programs run. If the device has no room to
// register the memory, the error wraps [ErrNoMemory].
type Binder interface {
	Bind(graph string, bindings []Binding) error
}

// Timed is a [Program] whose device measures the times of its calls. A device that
// measures times does so only if an option that was set when it was opened asks
// for it.
type Timed interface {
	// LoadCost returns the cost of the call that loaded the program.
	LoadCost() Cost
	// RunCost returns the cost of the last run.
	RunCost() Cost
}

// Cost is the time of a call, as the device reports it.
type Cost struct {
	// Took is the time on the device's clock, which may differ from the caller's clock:
	// an emulator may report the time that a phone would take.
	Took time.Duration
	// Overrun is set by an emulator that makes calls last as long as on a phone.
	// Overrun is the time by which this call lasted too long. Measurements with an
	// overrun are less reliable.
	Overrun time.Duration
	// Paced names the source of Took if an emulator simulates the times of a phone, for
	// example "sd8gen2 (fitted) as qwen2.5-1.5b".
	Paced string
	// Virtual is set if the call returned at once and only reported Took. To let calls
	// overlap in time, set the emulator's pace so that its calls last.
	Virtual bool
	// Scale is the factor by which a call lasts longer than Took on an emulator that
	// simulates a phone's times. Scale is 0 if nothing is simulated, or if the call
	// returned at once.
	Scale float64
}

// Powered is a [Device] that accepts votes for its clock rates. The engine calls Vote
// when the phase changes, from one goroutine at a time. A vote for [Idle] withdraws the
// last vote. If a device has no such votes, Vote returns [errors.ErrUnsupported].
type Powered interface {
	Vote(p Phase) error
}

// Phase is the kind of work that a device will do next.
type Phase string

// The phases.
const (
	Prefill Phase = "prefill" // passes with many rows, limited by arithmetic
	Verify  Phase = "verify"  // passes that verify drafts
	Decode  Phase = "decode"  // passes of one or two tokens, limited by memory bandwidth
	Idle    Phase = "idle"    // no work
)
