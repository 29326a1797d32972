package hexagon

import (
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// Events of the emulator alone, when it keeps a phone's time: whose it is,
// nanoseconds, and how long calls last for them, in millionths.
const (
	eventPaced   qnn.EventType = 9100
	eventCharged qnn.EventType = 9101
	eventOverrun qnn.EventType = 9102
	eventScale   qnn.EventType = 9103
)

// pacedVirtual is the value of eventPaced when calls do not last.
const pacedVirtual = 2

// newProfile opens a profile where costs were asked for, else nil.
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

// readCost reads what the last call with a profile took: own is the library's
// event of that call as a whole, in µs. A nil profile knows nothing.
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

// LoadCost is what the load took.
func (p *program) LoadCost() backend.Cost {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loadCost
}

// RunCost is what the last run took.
func (p *program) RunCost() backend.Cost {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runCost
}
