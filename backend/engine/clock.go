package engine

import (
	"strconv"

	"github.com/sdnpu/sdnpu/backend/engine/residency"
)

// Clock describes the clock that a device's calls keep. The zero value is the host's
// clock.
type Clock struct {
	// Paced names the device that an emulator simulates, and the source of its times: see
	// [backend.Cost]. It is empty if the device keeps its own time.
	Paced string
	// Virtual is set if calls take no time on the host's clock. The times of plans and graphs are
	// then the device's times.
	Virtual bool
	// Scale is the host's time per unit of the device's time, if calls last that long,
	// and else zero.
	Scale float64
}

// String returns "virtual", "wall" if calls last as long as the device's, "wall*20" if
// they last 20 times as long, or "host".
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

// clockOf derives the clock of a graph set's device from the cost that the device reports for a load.
func clockOf(s *residency.Set) Clock {
	c, _ := s.LoadCost()
	return Clock{Paced: c.Paced, Virtual: c.Virtual, Scale: c.Scale}
}
