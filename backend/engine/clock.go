package engine

import (
	"strconv"

	"github.com/sdnpu/sdnpu/backend"
)

// Clock says whose time a device's calls take. The zero value is the host's own:
// calls last as long as they are said to.
type Clock struct {
	// Paced names the device whose time it is, and what that rests on, see
	// [backend.Cost]; empty for the device's own.
	Paced string
	// Virtual tells that calls do not last: times of plans and graphs are the
	// device's, and the host's clock says nothing of them.
	Virtual bool
	// Scale is how long a call lasts here, on the host's clock, for one unit of the
	// device's time; 0 where that is not so.
	Scale float64
}

// String is "virtual", "wall" or "wall*20" (calls last, or last 20 times as long
// as the device's would), and "host" without a pace.
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

// clock is that of a family's device, as the first of its loads tells.
func (f *family) clock() Clock {
	for _, b := range f.blocks {
		for _, form := range b.forms {
			if form.step == nil {
				continue
			}
			if t, ok := form.step.program.(backend.Timed); ok {
				c := t.LoadCost()
				return Clock{Paced: c.Paced, Virtual: c.Virtual, Scale: c.Scale}
			}
		}
	}
	return Clock{}
}
