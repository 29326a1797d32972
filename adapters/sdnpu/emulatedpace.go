package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/graphswap"
)

// emulatedPace is whose time the emulator's calls take: a phone's by a profile,
// and no phone of ours was asked. It stands in every result that has times.
type emulatedPace struct {
	Profile string `json:"profile"`
	// Kind is what the profile's numbers rest on, such as fitted or estimated.
	Kind string `json:"kind"`
	// StandIn is the model whose costs are charged, empty for the model's own.
	StandIn string `json:"stand_in,omitempty"`
	// Pace is wall (calls last as long) or virtual (they last as long as here).
	Pace  string `json:"pace"`
	Scale string `json:"scale"`
}

// emulated tells our stand-in by what it calls itself, see package emulator.
func emulated(c backend.Capabilities) bool { return strings.Contains(c.Provider, "EMULATOR") }

// paceOf reads what the emulator was told, see package emulator; nil for a device that
// takes its own time. What it was told wrong the emulator itself refuses.
func paceOf(c backend.Capabilities) *emulatedPace {
	if !emulated(c) {
		return nil
	}
	told := map[string]string{}
	for pair := range strings.SplitSeq(os.Getenv("SDNPU_EMULATOR"), ",") {
		key, value, _ := strings.Cut(pair, "=")
		told[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	if told["profile"] == "" {
		return nil
	}
	p := &emulatedPace{Profile: told["profile"], Kind: "unknown", StandIn: told["as"], Pace: cmp.Or(told["pace"], "wall"), Scale: cmp.Or(told["scale"], "1")}
	if profile, err := graphswap.Device(strings.Replace(p.Profile, "/", "+", 1)); err == nil { // a variant is written so there
		p.Kind = profile.Kind
	}
	return p
}

// String is the pace in a line of results.
func (p *emulatedPace) String() string {
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
