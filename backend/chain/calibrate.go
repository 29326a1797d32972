package chain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Calibrate returns the ranges that activations of a model have in texts, on a
// device that computes in the recipe's floats: the float device with f32.
// progress, when not nil, is told how many of the model's parts are done.
func Calibrate(ctx context.Context, dev backend.Device, m *model.Model, texts [][]int32, o Options, progress func(done, total int)) (_ *model.Ranges, err error) {
	o.Observe = true
	c, err := New(dev, m, texts, o)
	if err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	s := &survey{config: m.Config(), ranges: &model.Ranges{Tensors: make(map[string]model.Range)}, squares: make(map[string]meanSquare)}
	layers := m.Config().Layers
	for i := range layers {
		progress(i, layers+1)
		if err := c.calibrateLayer(ctx, i, s); err != nil {
			return nil, err
		}
	}
	progress(layers, layers+1)
	if slices.ContainsFunc(model.Recipes, model.Recipe.RoundsHead) {
		if err := c.calibrateHead(ctx, s.see); err != nil {
			return nil, err
		}
		s.finish()
	}
	progress(layers+1, layers+1)
	return s.ranges, nil
}

// survey is what was seen so far.
type survey struct {
	config  model.Config
	ranges  *model.Ranges
	cache   map[string]bool       // the layer's new keys and values
	squares map[string]meanSquare // of tensors that are not finished
}

func (s *survey) see(tensor string, values []float32) {
	if tensor != model.PortY { // the hidden states, under one name behind all layers
		s.ranges.Add(tensor, values)
		s.squares[tensor] = s.squares[tensor].with(values)
	}
	if s.cache[tensor] {
		s.ranges.AddChannels(tensor, values, s.config.KVHeads, s.config.HeadDim)
	}
}

// finish completes the ranges of all that was seen.
func (s *survey) finish() {
	for tensor, m := range s.squares {
		r := s.ranges.Tensors[tensor]
		r.RMS = float32(math.Sqrt(m.sum / float64(m.count)))
		s.ranges.Tensors[tensor] = r
	}
	clear(s.squares)
}

// calibrateLayer surveys a layer and rounds those of its matrices that recipes
// take from it.
func (c *Chain) calibrateLayer(ctx context.Context, i int, s *survey) error {
	s.cache = map[string]bool{model.NewKey(i): true, model.NewValue(i): true}
	if c.options.Round == nil {
		err := c.Layer(ctx, i, s.see)
		s.finish()
		return err
	}
	g, err := c.graph(i)
	if err != nil {
		return err
	}
	tokens := 0
	for _, text := range c.texts {
		tokens += len(text)
	}
	r := newRounder(g, tokens, c.options.Block)
	err = c.Layer(ctx, i, func(tensor string, values []float32) {
		s.see(tensor, values)
		r.see(tensor, values)
	})
	if err != nil {
		return err
	}
	s.finish()
	wanted, err := c.rounded(i, s.ranges)
	if err != nil {
		return err
	}
	return r.round(wanted, c.options.Round)
}

// rounded names the matrices of layer i that are integers of rows in some recipe
// of the options' blocks. Which those are depends on the ranges: half the work of rounding would
// be for matrices that come in blocks.
func (c *Chain) rounded(i int, ranges *model.Ranges) (map[string]bool, error) {
	names := make(map[string]bool)
	for _, recipe := range model.Recipes {
		if !recipe.NeedsRanges() || recipe.Multiples() != c.options.Block {
			continue
		}
		recipe.Ranges = ranges
		g, err := c.model.Block(model.Block{Name: "rounded", First: i, End: i + 1, Rows: 1, Context: 1, Recipe: recipe})
		if err != nil {
			return nil, fmt.Errorf("chain: layer %d: %w", i, err)
		}
		for _, t := range g.Tensors {
			if t.Kind == backend.Constant && t.Type == backend.Sfixed8 && t.Encoding.Grain == backend.PerRow {
				names[t.Name] = true
			}
		}
	}
	return names, nil
}

// calibrateHead shows the head's outputs.
func (c *Chain) calibrateHead(ctx context.Context, see See) (err error) {
	head, err := c.Head(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, head.Close()) }()
	for i, text := range c.texts {
		for at := 0; at < len(text); at += head.Rows() {
			if _, err := head.Logits(ctx, i, at, see); err != nil {
				return err
			}
		}
	}
	return nil
}

// meanSquare is that of numbers seen so far.
type meanSquare struct {
	sum   float64
	count int
}

func (s meanSquare) with(values []float32) meanSquare {
	for _, v := range values {
		s.sum += float64(v) * float64(v)
	}
	s.count += len(values)
	return s
}
