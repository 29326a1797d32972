package launch

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Pace selects the phone's device profile that times the emulator's calls. No phone was measured
// for it. Every result with times names the pace.
type Pace struct {
	Profile string `json:"profile"`
	// Kind is the kind of the profile, such as fitted or estimated.
	Kind string `json:"kind"`
	// StandIn is the model whose costs are charged; empty means the model's own.
	StandIn string `json:"stand_in,omitempty"`
	// Pace is wall (calls last as long as the phone's) or virtual (calls return
	// at once, and a clock of their own advances).
	Pace  string `json:"pace"`
	Scale string `json:"scale"`
}

// Emulated reports whether a device is our emulator.
func Emulated(c backend.Capabilities) bool { return strings.Contains(c.Provider, "EMULATOR") }

// PaceOf returns the pace that SDNPU_EMULATOR asks of the emulator, see package
// emulator. It returns nil for a device that takes its own time. The emulator
// itself rejects a wrong setting.
func PaceOf(c backend.Capabilities) *Pace {
	if !Emulated(c) {
		return nil
	}
	set := map[string]string{}
	for pair := range strings.SplitSeq(os.Getenv("SDNPU_EMULATOR"), ",") {
		key, value, _ := strings.Cut(pair, "=")
		set[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	if set["profile"] == "" {
		return nil
	}
	p := &Pace{
		Profile: set["profile"],
		Kind:    "unknown",
		StandIn: set["as"],
		Pace:    cmp.Or(set["pace"], "wall"),
		Scale:   cmp.Or(set["scale"], "1"),
	}
	if profile, err := graphswap.Device(strings.Replace(p.Profile, "/", "+", 1)); err == nil { // SDNPU_EMULATOR writes a variant with a slash
		p.Kind = profile.Kind
	}
	return p
}

// String describes the pace in a line of results.
func (p *Pace) String() string {
	text := fmt.Sprintf("at the pace of %s (%s)", p.Profile, p.Kind)
	if p.StandIn != "" {
		text += ", charged as " + p.StandIn
	}
	text += ", " + p.Pace + " time"
	if p.Scale != "1" {
		text += " times " + p.Scale
	}
	if p.Pace == "virtual" {
		text += ": durations by this machine's clock are not the phone's"
	}
	return text
}

// Describe returns a device in one line, with the pace of its calls.
func Describe(c backend.Capabilities) string {
	text := fmt.Sprintf("%s, provider %s, build %s", c.Name, c.Provider, c.BuildID)
	if c.SoC != "" {
		text += ", SoC " + c.SoC
	}
	text += ", lane " + string(c.Lane)
	if pace := PaceOf(c); pace != nil {
		text += ", " + pace.String()
	}
	return text
}
