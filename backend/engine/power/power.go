// Package power requests the clock rates that each phase of a request needs from the
// device.
//
// A vote for a clock rate holds until the next vote. Each pass votes for its phase.
// When the last request ends, the vote is [backend.Idle]. If a device has no clock
// votes, or rejects one, it gets no further votes and runs at the clock rate that it
// has. Votes change how long a request takes, and never its result.
//
// Any goroutine may use a [Voter]. The only lock of a Voter is held during the call of
// the device. A Voter calls the device only if the phase changes.
package power

import (
	"log/slog"
	"sync"

	"github.com/sdnpu/sdnpu/backend"
)

// Voter requests clock rates from a device. Create a Voter with [NewVoter].
type Voter struct {
	logger *slog.Logger

	mu       sync.Mutex      // guards what follows
	device   backend.Powered // device is nil if the device has no clock votes
	phase    backend.Phase   // phase of the latest vote
	requests int             // that run now
}

// NewVoter returns a voter for a device.
func NewVoter(dev backend.Device, logger *slog.Logger) *Voter {
	v := &Voter{logger: logger, phase: backend.Idle}
	v.device, _ = dev.(backend.Powered)
	return v
}

// Vote requests the clock rates of a phase, unless the latest vote was for the same
// phase.
func (v *Voter) Vote(phase backend.Phase) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.vote(phase)
}

// vote votes for a phase. The caller holds mu.
func (v *Voter) vote(phase backend.Phase) {
	if v.device == nil || phase == v.phase {
		return
	}
	if err := v.device.Vote(phase); err != nil { // a rejected vote is no error: the device runs at another clock rate
		v.logger.Debug("the device rejected a vote for clock rates, and gets no more votes", "phase", phase, "reason", err)
		v.device = nil
		return
	}
	v.phase = phase
}

// Forget makes the next vote call the device in any case, because a restart of the
// device has dropped the latest vote.
func (v *Voter) Forget() {
	v.mu.Lock()
	v.phase = ""
	v.mu.Unlock()
}

// RequestStarted counts a request that starts.
func (v *Voter) RequestStarted() {
	v.mu.Lock()
	v.requests++
	v.mu.Unlock()
}

// RequestEnded counts a request that ends. After the last request, RequestEnded votes
// for [backend.Idle].
func (v *Voter) RequestEnded() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.requests--; v.requests == 0 {
		v.vote(backend.Idle)
	}
}
