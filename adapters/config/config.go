package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
)

// ErrSetting is returned when a value is not one that the key takes, or a key
// is unknown.
var ErrSetting = errors.New("bad setting")

// Config is what the sources say, defaults filled in.
type Config struct {
	// Enabled selects the model for the NPU.
	Enabled bool
	// Recipe names the precision recipe.
	Recipe string
	// Draft says where speculative drafts come from, as Resolve has made it of
	// sdnpu.draft and what Calibration and Extension say.
	Draft draft.Mode
	// Calibration and Extension switch these terms of Draft "on" or "off", or
	// leave them to it: "auto". On, every prompt is calibrated, and not only where
	// that is predicted to pay.
	Calibration, Extension string
	// Database is the folder of the token database; empty keeps it in memory.
	Database string
	// DatabaseSize is how many bytes it keeps; zero is no limit.
	DatabaseSize int64
	// Plan names how graphs are made resident.
	Plan string
	// Exact computes each token of an answer on one width.
	Exact bool
	// Rows are the widths of the graphs, descending.
	Rows []int
	// FirstContext is the past that graphs begin with, in tokens; zero leaves it
	// to the engine.
	FirstContext int
	// Blocks is the number of runs of layers, 0 for a fitting one.
	Blocks int
	// Origin tells for each key that some source set where its value came from.
	Origin map[string]string
}

// Source is one place that may set keys, such as a GGUF or the environment.
type Source struct {
	// Name is what messages call the place: "model", "adapter".
	Name string
	// Lookup returns the text of a key's value. A list is comma-separated.
	Lookup func(k Key) (value string, ok bool)
	// Names lists the keys with our prefix that stand in the source, so that
	// unknown ones are found; nil means that the source cannot tell.
	Names []string
}

// Resolve reads all keys from the sources; later sources win.
func Resolve(sources ...Source) (Config, error) {
	c := Config{Origin: map[string]string{}}
	for _, k := range Keys {
		if err := k.set(&c, k.Default); err != nil {
			return Config{}, fmt.Errorf("config: default of %s: %w", k.Name, err)
		}
	}
	for _, s := range sources {
		for _, name := range s.Names {
			if _, ok := find(name); !ok {
				return Config{}, fmt.Errorf("config: %w: %s in %s is not a key of this version: known are %s", ErrSetting, Short(name), s.Name, strings.Join(names(), ", "))
			}
		}
		for _, k := range Keys {
			value, ok := s.Lookup(k)
			if !ok {
				continue
			}
			if err := k.set(&c, value); err != nil {
				return Config{}, fmt.Errorf("config: %w: %s = %q in %s: %w", ErrSetting, k.Name, Short(value), s.Name, err)
			}
			c.Origin[k.Name] = s.Name
		}
	}
	switchTerm(c.Calibration, &c.Draft.Calibration)
	switchTerm(c.Extension, &c.Draft.Extension)
	return c, c.check()
}

// check refuses values that each fit and that no device takes together.
func (c Config) check() error {
	if err := engine.CheckExact(c.Plan); c.Exact && err != nil {
		return fmt.Errorf("config: %w: sdnpu.exact = true in %s and sdnpu.plan = %s in %s: %w",
			ErrSetting, c.Origin["sdnpu.exact"], c.Plan, c.Origin["sdnpu.plan"], err)
	}
	return nil
}

// switchTerm lets a key of its own decide about a term of the draft mode.
func switchTerm(value string, term *bool) {
	if value != auto {
		*term = value == on
	}
}

// Enabled reads only whether the sources select the model.
func Enabled(sources ...Source) (bool, error) {
	k, c := Keys[0], Config{}
	for _, s := range sources {
		if value, ok := s.Lookup(k); ok {
			if err := k.set(&c, value); err != nil {
				return false, fmt.Errorf("config: %w: %s = %q in %s: %w", ErrSetting, k.Name, Short(value), s.Name, err)
			}
		}
	}
	return c.Enabled, nil
}

// Environment reads the variables of the keys; empty ones count as not set.
func Environment(lookup func(name string) (string, bool)) Source {
	return Source{Name: "environment", Lookup: func(k Key) (string, bool) {
		value, ok := lookup(k.Variable())
		return value, ok && value != ""
	}}
}
