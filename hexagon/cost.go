package hexagon

import (
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// Events of the emulator, only when it simulates a phone's times.
const (
	eventPaced   qnn.EventType = 9100 // text: the simulated device
	eventCharged qnn.EventType = 9101 // ns: the simulated time
	eventOverrun qnn.EventType = 9102 // ns: time by which the call exceeded the simulated time
	eventScale   qnn.EventType = 9103 // millionths: wall time per simulated time
)

// pacedVirtual is the value of eventPaced if calls do not sleep.
const pacedVirtual = 2

// newProfile opens a profile if Options.Costs is set; otherwise it returns nil.
func (d *Device) newProfile() (*qnn.Profile, error) {
	if !d.options.Costs {
		return nil, nil
	}
	return d.backend.NewProfile(qnn.ProfileBasic)
}

func closeProfile(p *qnn.Profile) error {
	if p == nil {
		return nil
	}
	return p.Close()
}

// readCost returns the cost of the last call with a profile. own is the library's
// event for the whole call, in µs. With a nil profile the cost is zero.
func readCost(p *qnn.Profile, own qnn.EventType) (backend.Cost, error) {
	var c backend.Cost
	if p == nil {
		return c, nil
	}
	events, err := p.Events()
	if err != nil {
		return c, err
	}
	for _, e := range events {
		switch e.Type {
		case own:
			if c.Paced == "" {
				c.Took = time.Duration(e.Value) * time.Microsecond
			}
		case eventPaced:
			c.Paced, c.Virtual = e.Name, e.Value == pacedVirtual
		case eventCharged:
			c.Took = time.Duration(e.Value)
		case eventOverrun:
			c.Overrun = time.Duration(e.Value)
		case eventScale:
			c.Scale = float64(e.Value) / 1e6
		}
	}
	return c, nil
}

// LoadCost returns the cost of the load.
func (p *program) LoadCost() backend.Cost {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loadCost
}

// RunCost returns the cost of the last execute.
func (p *program) RunCost() backend.Cost {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runCost
}
