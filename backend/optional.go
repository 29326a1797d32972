package backend

import "time"

// optional.go contains the interfaces that a device or a program may implement in
// addition to [Device] and [Program]. The engine finds out with a type assertion
// whether a device implements an optional interface.

// Binder is a [Program] whose device must register memory before the program can use it. Bind
// registers the memory of bindings in advance, so that the first run with these bindings takes no
// time for registration. Bind may be called while programs run. If the device has no room to
// register the memory, Bind's error wraps [ErrNoMemory].
//
// Unbind ends all registrations of memory for a graph. After Unbind, the buffers of the graph's
// earlier runs may be closed before the program is.
type Binder interface {
	Bind(graph string, bindings []Binding) error
	Unbind(graph string) error
}

// Timed is a [Program] whose device measures the times of its calls. A device measures times only
// if it was opened with an option that requests times.
type Timed interface {
	// LoadCost returns the time that the call which loaded the program took on the device's clock.
	LoadCost() Cost
	// RunCost returns the time that the program's last run took on the device's clock.
	RunCost() Cost
}

// Cost is the time that a call took, as the device reports it.
type Cost struct {
	// Took is the time on the device's clock, which may differ from the caller's clock:
	// an emulator may report the time that a phone would take.
	Took time.Duration
	// If an emulator makes calls last as long as on a phone, Overrun is the time by which this
	// call lasted too long. A measured time is less reliable if the call has an Overrun.
	Overrun time.Duration
	// If an emulator simulates the times of a phone, Paced names the profile and the model
	// from which Took is computed, for example "sd8gen2 (fitted) as qwen2.5-1.5b".
	Paced string
	// Virtual is set if the call returned at once and only reported the time Took. To let
	// calls overlap in time, set the emulator's pace so that calls do not return at once.
	Virtual bool
	// Scale is the factor by which a call lasts longer than Took on an emulator that simulates
	// a phone's times. If the device does not simulate times, or if the call returned at once,
	// Scale is 0.
	Scale float64
}

// Hosting is a [Device] that computes a part of its graphs on the host.
type Hosting interface {
	// HostWork returns the host's work since the device was opened.
	HostWork() HostWork
}

// HostWork counts what the host has computed for graphs with nodes of [HostRemainder].
type HostWork struct {
	// Steps counts the times at which the host computed products of one input, and Products counts
	// these products. Outliers counts the outliers in the rows of all products, and Channels the
	// input channels that had an outlier in at least one row.
	Steps, Products, Outliers, Channels int64
	// Reads counts the columns of weights that were read from the model's file.
	Reads int64
	// Multiplications counts the host's multiplications, and DeviceMultiplications those of the
	// device in the same graphs.
	Multiplications, DeviceMultiplications int64
	// CPU is the time in which the host computed, and IO the time in which it read columns.
	CPU, IO time.Duration

	// The fields below count the host's part of attention ([HostAttention]). DensePasses and
	// SparsePasses count the runs of graphs in which the device, or the host, computed attention.
	DensePasses, SparsePasses int64
	// Launches counts the runs of graphs that estimate scores. ProcessorLaunches counts those that the
	// processor computed instead, because the device could not. Keys counts the keys that rows saw,
	// and KeptKeys those to which they attended. SampledKeys counts the keys that exact scores
	// select for a sample of rows, and FoundKeys those of them that estimates have selected, too.
	Launches, ProcessorLaunches, Keys, KeptKeys, SampledKeys, FoundKeys int64
	// Attention is the part of CPU that is attention.
	Attention time.Duration
}

// Keep returns the share of the keys to which rows attended, or 1 if the host computed no attention.
func (w HostWork) Keep() float64 { return share(w.KeptKeys, w.Keys) }

// Recall returns the estimated share of the keys with the largest scores that the host has found, or 1
// if nothing was sampled.
func (w HostWork) Recall() float64 { return share(w.FoundKeys, w.SampledKeys) }

func share(part, all int64) float64 {
	if all == 0 {
		return 1
	}
	return float64(part) / float64(all)
}

// HostWorkOf returns the host's work for a device. For a device that runs all nodes itself, the work
// is zero.
func HostWorkOf(d Device) HostWork {
	if h, ok := d.(Hosting); ok {
		return h.HostWork()
	}
	return HostWork{}
}

// Since returns the work after an earlier state.
func (w HostWork) Since(before HostWork) HostWork {
	return HostWork{
		Steps: w.Steps - before.Steps, Products: w.Products - before.Products, Outliers: w.Outliers - before.Outliers,
		Channels: w.Channels - before.Channels, Reads: w.Reads - before.Reads,
		Multiplications:       w.Multiplications - before.Multiplications,
		DeviceMultiplications: w.DeviceMultiplications - before.DeviceMultiplications,
		CPU:                   w.CPU - before.CPU, IO: w.IO - before.IO,
		DensePasses: w.DensePasses - before.DensePasses, SparsePasses: w.SparsePasses - before.SparsePasses,
		Launches: w.Launches - before.Launches, ProcessorLaunches: w.ProcessorLaunches - before.ProcessorLaunches, Keys: w.Keys - before.Keys, KeptKeys: w.KeptKeys - before.KeptKeys,
		SampledKeys: w.SampledKeys - before.SampledKeys, FoundKeys: w.FoundKeys - before.FoundKeys, Attention: w.Attention - before.Attention,
	}
}

// Powered is a [Device] that accepts votes for its clock rates. The engine calls Vote
// when the phase of its work changes, from one goroutine at a time. A vote for [Idle]
// withdraws the vote before it. If a device cannot change its clock rates, Vote returns
// [errors.ErrUnsupported].
type Powered interface {
	Vote(p Phase) error
}

// Phase is the kind of work that a device will do next, such as prefill or decode.
type Phase string

// The constants below are the phases for which a [Powered] device accepts votes.
const (
	Prefill Phase = "prefill" // Prefill is the phase of passes with many rows, which arithmetic limits
	Verify  Phase = "verify"  // Verify is the phase of passes that verify drafts
	Decode  Phase = "decode"  // Decode is the phase of passes of one or two tokens, which memory bandwidth limits
	Idle    Phase = "idle"    // Idle is the phase in which the device has no work
)
