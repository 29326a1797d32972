package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/graphswap"
)

// MeasureOptions tunes [Measure]. The zero value is ready to use.
type MeasureOptions struct {
	// Repeats is how often each graph is loaded and run, beside two runs that warm
	// up. Zero means 5.
	Repeats int
	// HeadRows are the widths of the head. None means the options'.
	HeadRows []int
	// Each, when set, is told of every graph that is done.
	Each func(Measurement)
	// Failed, when set, is told of what could not be measured, and the rest still
	// is; else the first failure ends it all.
	Failed func(what string, err error)
}

// failed returns what ends a measurement: nothing where the caller only wants
// to know.
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

// warmUps are runs that do not count.
const warmUps = 2

// Measurement is what one graph takes, alone on the device. Times are medians:
// the device's account where it keeps another one's time, else the host's, from
// call to return.
type Measurement struct {
	Graph string
	// Block is the run of layers, of which it has Layers; -1 is the head.
	Block, Layers int
	Rows          int
	SizeBytes     int64 // of the device's memory
	Load          time.Duration
	// Run is at Measurements.Context tokens, Short at as few as the graph has
	// rows to see: what lies between grows with the context.
	Run, Short time.Duration
	// Overruns counts runs whose time an emulator could not keep to.
	Overruns int
}

// Measurements are those of all graphs of a model.
type Measurements struct {
	Graphs []Measurement
	// Context is the tokens that the middle row of a run sees; Slots what the
	// graphs could hold.
	Context, Slots int
	// Beside is by how much a run is slower that starts while a load goes on; 0
	// where that could not be measured.
	Beside float64
	// Paced says whose time it is, see [backend.Cost].
	Paced string
}

// Measure loads and runs every graph of a model alone, in the widths and blocks
// of the options, with all weights in each image: what a plan is made of. Images
// come from the cache, or go there. It takes no tokens through the model.
func Measure(ctx context.Context, dev backend.Device, m *model.Model, options Options, mo MeasureOptions) (*Measurements, error) {
	options.Plan = "" // its widths may be any
	options, err := options.resolve(m.Config())
	if err != nil {
		return nil, err
	}
	options.Plan = graphswap.PlanBoth // every graph an image of its own
	if mo.Repeats == 0 {
		mo.Repeats = 5
	}
	slots := options.contextFor(0) * options.Sequences
	sets, err := writeBlocks(m, options, slots)
	if err != nil {
		return nil, err
	}
	headRows := mo.HeadRows
	if len(headRows) == 0 {
		headRows = options.headRows()
	}
	head, err := writeHead(m, options, headRows)
	if err != nil {
		return nil, err
	}
	sets = append(sets, head)
	s := &scale{
		dev: dev, loader: newLoader(dev, m.Digest(), options, slots, sets), repeats: mo.Repeats, views: m.Views(options.Context),
		result: &Measurements{Slots: slots, Context: slots},
	}
	s.loader.layers, s.loader.heads = m.Config().Layers, headRows
	for i, set := range sets {
		if i == len(sets)-1 {
			i = -1
		}
		for _, g := range set {
			one, err := s.weigh(ctx, g, i)
			if err != nil {
				if err := mo.failed(ctx, g.Name, err); err != nil {
					return nil, err
				}
				continue
			}
			if i >= 0 {
				first, end := options.blockRange(i, m.Config().Layers)
				one.Layers = end - first
			}
			s.result.Graphs = append(s.result.Graphs, one)
			if mo.Each != nil {
				mo.Each(one)
			}
		}
	}
	s.result.Beside, err = s.beside(ctx, sets[0][0], sets[len(sets)-2][0])
	return s.result, mo.failed(ctx, "runs beside loads", err)
}
