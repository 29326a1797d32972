package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/buffers"
	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Some types of package images are part of an engine's options and results.
type (
	// Progress tells how many of the images are compiled and loaded.
	Progress = images.Progress
	// Job describes an image to be compiled.
	Job = images.Job
	// Prepared is an image that an engine will need.
	Prepared = images.Prepared
	// MeasureOptions tunes [Measure].
	MeasureOptions = images.MeasureOptions
	// Measurement holds the times of one graph.
	Measurement = images.Measurement
	// Measurements holds the measurements of all graphs of a model.
	Measurements = images.Measurements
)

// ErrJob is returned if the graphs that a [Job] describes differ from the graphs that the job was
// made from.
var ErrJob = images.ErrJob

// DefaultPatience is the default of [Options.CompilePatience].
const DefaultPatience = images.DefaultPatience

// WorkTime returns the longest time that is normal for compiling constants of the
// given size. A patience of zero means [DefaultPatience].
func WorkTime(patience time.Duration, weights int64) time.Duration {
	return images.WorkTime(patience, weights)
}

// images returns the configuration for package images of graphs of a shape.
func (o *settings) images(s *shape) images.Config {
	return images.Config{
		Recipe:     o.Recipe,
		Rows:       s.rows,
		HeadRows:   s.headRows,
		Blocks:     s.blocks,
		Top:        o.Top,
		Separate:   s.separate,
		Swap:       s.deviceSwitches,
		Cache:      o.Cache,
		Patience:   o.CompilePatience,
		FirstSlots: o.contextFor(0) * o.Sequences,
		Name:       o.Name,
		Compile:    o.Compile,
		Logger:     o.Logger,
		Progress:   o.Progress,
	}
}

// contexts returns all context tiers that an engine can use, from the first to the
// longest.
func (o *settings) contexts() []int {
	list := []int{o.contextFor(0)}
	for list[len(list)-1] < o.Context {
		list = append(list, o.contextFor(list[len(list)-1]+1))
	}
	return list
}

// Prepare compiles every image that an engine with these arguments can need, for each
// context tier, into the image cache of the options: see [images.Prepare].
func Prepare(ctx context.Context, dev backend.Device, m *model.Model, options Options) ([]Prepared, error) {
	device := dev.Capabilities()
	list, err := options.alternatives(m.Config(), device)
	if err != nil {
		return nil, err
	}
	if options.Draft.Auto && !device.SharesConstants {
		// Separate images may later run on a device that shares constants, and on that device
		// automatic drafts have further widths.
		device.SharesConstants = true
		more, err := options.alternatives(m.Config(), device)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	var all []Prepared
	for _, o := range list {
		if o.Cache == nil {
			return nil, fmt.Errorf("engine: %w: prepare: the options name no image cache to store images in", ErrOptions)
		}
		prepared, err := images.Prepare(ctx, dev, m, o.images(&o.shape), o.contexts(), o.Sequences)
		if err != nil {
			return nil, err
		}
		for _, p := range prepared {
			if !slices.ContainsFunc(all, func(x Prepared) bool { return x.Key == p.Key }) {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// Measure loads each graph of a model alone, runs it, and times both, with the widths
// and blocks of the options: see [images.Measure].
func Measure(ctx context.Context, dev backend.Device, m *model.Model, options Options, mo MeasureOptions) (*Measurements, error) {
	options.Plan = "" // without a plan, any widths are allowed
	o, err := options.resolve(m.Config(), dev.Capabilities())
	if err != nil {
		return nil, err
	}
	return images.Measure(ctx, dev, m, o.images(&o.shape), m.Views(o.Context), o.contextFor(0)*o.Sequences, mo)
}

// buffers returns the configuration of the memory that graphs of a shape bind at one
// context tier.
func (o *settings) buffers(m *model.Model, s *shape, context int) buffers.Config {
	c := buffers.Config{
		Model: m.Config(), Recipe: o.Recipe, Views: m.Views(o.Context), Rows: s.rows[0], PartRows: s.partRows(),
		Sequences: o.Sequences, Context: context,
	}
	for block := range s.blocks {
		_, end := s.blockRange(block, c.Model.Layers)
		c.Ends = append(c.Ends, end)
	}
	return c
}
