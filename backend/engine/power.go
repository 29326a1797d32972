package engine

import (
	"log/slog"
	"sync"

	"github.com/sdnpu/sdnpu/backend"
)

// power asks the device for the clocks that each phase wants. The zero value
// asks for nothing.
type power struct {
	mu     sync.Mutex
	device backend.Powered // nil for devices that take no votes, or no more
	logger *slog.Logger
	phase  backend.Phase // of the vote that stands
	users  int           // generations that go on
}

func newPower(dev backend.Device, logger *slog.Logger) *power {
	p := &power{logger: logger, phase: backend.Idle}
	p.device, _ = dev.(backend.Powered)
	return p
}

// vote asks for the clocks of a phase, if they are not voted for already.
func (p *power) vote(phase backend.Phase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.voteLocked(phase)
}

func (p *power) voteLocked(phase backend.Phase) {
	if p.device == nil || phase == p.phase {
		return
	}
	if err := p.device.Vote(phase); err != nil { // it runs all the same, at whatever clock
		p.logger.Debug("no votes for clocks", "phase", phase, "reason", err)
		p.device = nil
		return
	}
	p.phase = phase
}

// forget makes the next vote count: a restart of the device lost the last.
func (p *power) forget() {
	p.mu.Lock()
	p.phase = ""
	p.mu.Unlock()
}

// enter counts a generation; leave ends it, and with the last one the vote.
func (p *power) enter() {
	p.mu.Lock()
	p.users++
	p.mu.Unlock()
}

func (p *power) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users == 0 {
		p.voteLocked(backend.Idle)
	}
}

// phaseOf is the phase of a pass.
func phaseOf(shares []share) backend.Phase {
	phase := backend.Decode
	for _, s := range shares {
		switch {
		case s.n > 1:
			return backend.Prefill
		case s.drafts > 0:
			phase = backend.Verify
		}
	}
	return phase
}
