// Package power asks the device for the clock rates that each phase of a request needs.
//
// A vote for a clock rate holds until the next vote. Each pass votes for the clock rates of
// its phase. When the last request ends, the engine votes for [backend.Idle]. If a device has
// no clock votes, or rejects one, the Voter sends no further votes, and the clock rates of
// the device stay as they are. Votes for clock rates change how long a request takes, and
// never its result.
//
// Any goroutine may use a [Voter]. A Voter holds its only lock while it calls the
// device. A Voter calls the device only if the phase changes.
package power

import (
	"log/slog"
	"sync"

	"github.com/sdnpu/sdnpu/backend"
)

// Voter asks a device for clock rates. [NewVoter] creates a Voter.
type Voter struct {
	logger *slog.Logger

	mu       sync.Mutex      // mu guards the fields below it
	device   backend.Powered // device is nil if the device has no clock votes
	phase    backend.Phase   // phase is the phase of the latest vote
	requests int             // requests is the number of requests that run now
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

// vote asks the device for the clock rates that suit a phase, such as decoding. The caller of vote
// holds mu.
func (v *Voter) vote(phase backend.Phase) {
	if v.device == nil || phase == v.phase {
		return
	}
	if err := v.device.Vote(phase); err != nil { // a rejected vote is no error, because the device then runs at another clock rate
		v.logger.Debug("the device rejected a vote for clock rates, and gets no more votes", "phase", phase, "reason", err)
		v.device = nil
		return
	}
	v.phase = phase
}

// Forget makes the next vote call the device even if its phase is that of the latest
// vote, because a restart of the device has dropped that vote.
func (v *Voter) Forget() {
	v.mu.Lock()
	v.phase = ""
	v.mu.Unlock()
}

// RequestStarted counts a request that starts, so that the voter knows when all have
// ended.
func (v *Voter) RequestStarted() {
	v.mu.Lock()
	v.requests++
	v.mu.Unlock()
}

// RequestEnded counts a request that has ended. After the last request, RequestEnded
// votes for [backend.Idle].
func (v *Voter) RequestEnded() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.requests--; v.requests == 0 {
		v.vote(backend.Idle)
	}
}
