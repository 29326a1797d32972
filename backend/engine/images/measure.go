package images

import (
	"context"
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// WarmUps is the number of runs before the first one that is measured.
const WarmUps = 2

// defaultRepeats is the number of loads and runs that are measured.
const defaultRepeats = 5

// MeasureOptions tunes [Measure]. The zero value is ready to use.
type MeasureOptions struct {
	// Repeats is the number of loads and of runs of each graph, after [WarmUps] runs
	// that do not count. Zero means 5.
	Repeats int
	// HeadRows are the widths of the head. If HeadRows is empty, the widths come from the engine's options.
	HeadRows []int
	// Each, when set, is called with each graph that is measured.
	Each func(Measurement)
	// Failed, when set, is called with each graph that cannot be measured, and the
	// rest still is. If it is nil, the first failure ends the measurement.
	Failed func(what string, err error)
}

// failed passes an error to the caller's Failed. It returns an error that ends the
// measurement, or nil.
func (mo MeasureOptions) failed(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("engine: measure %s: %w", what, err)
	if mo.Failed == nil || ctx.Err() != nil {
		return err
	}
	mo.Failed(what, err)
	return nil
}

// Measurement holds the times of one graph, alone on the device. Each is a median, from call to
// return. If an emulator simulates a device, the time is the simulated device's time, and otherwise
// the host's.
type Measurement struct {
	Graph string
	// Block is the graph's block, which has Layers layers; -1 is the head.
	Block, Layers int
	Rows          int
	SizeBytes     int64 // device memory
	Load          time.Duration
	// Run is with Measurements.Context visible tokens, Short with none but the rows
	// of the graph. The time between them grows with the context.
	Run, Short time.Duration
	// Overruns counts runs that an emulator could not keep as short as the device.
	Overruns int
}

// Measurements holds the measurements of all graphs of a model.
type Measurements struct {
	Graphs []Measurement
	// Context is the number of tokens that the middle row of a run sees. Slots is
	// the number that the graphs can hold.
	Context, Slots int
	// RunSlowdown is the time of a run during a load divided by the time of a run alone, or zero if
	// it could not be measured.
	RunSlowdown float64
	// Paced names the device whose time it is: see [backend.Cost].
	Paced string
}

// Measure loads and runs every graph of a model alone, for a context of slots
// tokens in all, with an image for each graph. The images come from the cache, or
// go there. No tokens go through the model.
func Measure(ctx context.Context, dev backend.Device, m *model.Model, c Config, views []model.View, slots int, mo MeasureOptions) (*Measurements, error) {
	c.Separate, c.Swap = true, false
	if mo.Repeats == 0 {
		mo.Repeats = defaultRepeats
	}
	if len(mo.HeadRows) > 0 {
		c.HeadRows = mo.HeadRows
	}
	sets, err := WriteBlocks(m, c, slots)
	if err != nil {
		return nil, err
	}
	head, err := WriteHead(m, c)
	if err != nil {
		return nil, err
	}
	sets = append(sets, head)
	s := &measurer{
		dev: dev, loader: NewLoader(dev, m, c, slots, sets), repeats: mo.Repeats, views: views,
		result: &Measurements{Slots: slots, Context: slots},
	}
	for i, set := range sets {
		layers := 0
		if i == len(sets)-1 {
			i = -1
		} else {
			first, end := BlockRange(i, c.Blocks, m.Config().Layers)
			layers = end - first
		}
		for _, g := range set {
			one, err := s.measure(ctx, g)
			if err != nil {
				if err := mo.failed(ctx, g.Name, err); err != nil {
					return nil, err
				}
				continue
			}
			one.Block, one.Layers = i, layers
			s.result.Graphs = append(s.result.Graphs, one)
			if mo.Each != nil {
				mo.Each(one)
			}
		}
	}
	s.result.RunSlowdown, err = s.runSlowdown(ctx, sets[0][0], sets[len(sets)-2][0])
	return s.result, mo.failed(ctx, "runs during loads", err)
}
