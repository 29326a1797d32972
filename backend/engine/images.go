package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Prepare compiles every image that an engine with these arguments can need, for each
// context tier, into the image cache of the options: see [images.Prepare].
func Prepare(ctx context.Context, dev backend.Device, m *model.Model, options Options) ([]Prepared, error) {
	device := dev.Capabilities()
	list, err := options.Alternatives(m.Config(), device)
	if err != nil {
		return nil, err
	}
	if options.Draft.Auto && !device.SharesConstants {
		// Separate images may later run on a device that shares constants, and on that device
		// automatic drafts have further widths.
		device.SharesConstants = true
		more, err := options.Alternatives(m.Config(), device)
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
		prepared, err := images.Prepare(ctx, dev, m, o.Images(&o.Graphs), o.Contexts(), o.Sequences)
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
	o, err := options.Resolve(m.Config(), dev.Capabilities())
	if err != nil {
		return nil, err
	}
	return images.Measure(ctx, dev, m, o.Images(&o.Graphs), m.Views(o.Context), o.ContextFor(0)*o.Sequences, mo)
}
