// Package power asks the device for the clocks that each phase of a request needs.
//
// A vote holds until the next one. While requests run, each pass votes for its phase,
// and when the last request ends, the vote is [backend.Idle]. A device without clock
// votes, or one that rejects a vote, gets no further ones and runs at whatever clock it
// has: votes change the time of a request and never its result.
//
// A [Voter] may be used by any goroutine. It has one lock, which it holds during the
// call of the device, and it makes a call only if the phase changes.
package power

import (
	"log/slog"
	"sync"

	"github.com/sdnpu/sdnpu/backend"
)

// Voter votes for the clocks of a device. Create one with [NewVoter].
type Voter struct {
	logger *slog.Logger

	mu       sync.Mutex      // guards what follows
	device   backend.Powered // nil if the device takes no votes
	phase    backend.Phase   // of the vote that holds
	requests int             // that run now
}

// NewVoter returns a voter for a device.
func NewVoter(dev backend.Device, logger *slog.Logger) *Voter {
	v := &Voter{logger: logger, phase: backend.Idle}
	v.device, _ = dev.(backend.Powered)
	return v
}

// Vote asks for the clocks of a phase, unless the last vote did.
func (v *Voter) Vote(phase backend.Phase) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.vote(phase)
}

// vote votes; the caller holds mu.
func (v *Voter) vote(phase backend.Phase) {
	if v.device == nil || phase == v.phase {
		return
	}
	if err := v.device.Vote(phase); err != nil { // the device runs at another clock
		v.logger.Debug("no votes for clocks", "phase", phase, "reason", err)
		v.device = nil
		return
	}
	v.phase = phase
}

// Forget makes the next vote count again: a restart of the device has lost the last one.
func (v *Voter) Forget() {
	v.mu.Lock()
	v.phase = ""
	v.mu.Unlock()
}

// RequestStarted counts a request.
func (v *Voter) RequestStarted() {
	v.mu.Lock()
	v.requests++
	v.mu.Unlock()
}

// RequestEnded ends a request. After the last one it votes for [backend.Idle].
func (v *Voter) RequestEnded() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.requests--; v.requests == 0 {
		v.vote(backend.Idle)
	}
}
