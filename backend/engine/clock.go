package engine

import (
	"strconv"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/residency"
)

// Clock tells which clock measures the device's calls. The zero Clock is the host's
// clock.
type Clock struct {
	// Paced tells which phone's times an emulator simulates, and the source of these
	// times: see [backend.Cost]. Paced is empty if the device simulates no times.
	Paced string
	// Virtual is set if the device's calls take no time on the host's clock. On a
	// virtual clock, the times of plans and graphs are simulated times.
	Virtual bool
	// Scale is the host's time per unit of simulated time if the emulator makes calls
	// last, and else zero.
	Scale float64
}

// String returns "virtual" if calls take no time, "wall" if calls last as long as on
// the phone, "wall*20" if they last 20 times as long, or "host" if nothing is
// simulated.
func (c Clock) String() string {
	switch {
	case c.Virtual:
		return "virtual"
	case c.Paced == "":
		return "host"
	case c.Scale == 0 || c.Scale == 1:
		return "wall"
	}
	return "wall*" + strconv.FormatFloat(c.Scale, 'g', -1, 64)
}

// simulated reports whether the clock is that of a simulated device.
func (c Clock) simulated() bool { return c.Virtual || c.Paced != "" }

// count adds the simulated time of one execute to the pass.
func (r *Result) count(c backend.Cost) {
	if c.Virtual {
		r.virtual += c.Took
	}
	if c.Virtual || c.Paced != "" {
		r.paced += c.Took
	}
}

// device returns the time of a pass on the device's clock. The argument of device is
// the time on the host's clock. All decisions that rest on times use the device's
// clock: otherwise the decisions for a simulated device would follow from the speed of
// the computer that simulates it.
func (r *Result) device(host time.Duration) time.Duration {
	if r.paced > 0 {
		return r.paced
	}
	return host
}

// clockOf finds out which clock a device keeps, from the cost that the device reports
// for a load.
func clockOf(s *residency.Set) Clock {
	c, _ := s.LoadCost()
	return Clock{Paced: c.Paced, Virtual: c.Virtual, Scale: c.Scale}
}
