package chain

import (
	"context"
	"errors"
	"math"

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
	ranges, squares := &model.Ranges{Tensors: make(map[string]model.Range)}, make(map[string]meanSquare)
	see := func(tensor string, values []float32) {
		if tensor != model.PortY { // the hidden states, under one name behind all layers
			ranges.Add(tensor, values)
			squares[tensor] = squares[tensor].with(values)
		}
	}
	layers := m.Config().Layers
	for i := range layers {
		progress(i, layers+1)
		if err := c.calibrateLayer(ctx, i, see); err != nil {
			return nil, err
		}
	}
	progress(layers, layers+1)
	if err := c.calibrateHead(ctx, see); err != nil {
		return nil, err
	}
	for tensor, s := range squares {
		r := ranges.Tensors[tensor]
		r.RMS = float32(math.Sqrt(s.sum / float64(s.count)))
		ranges.Tensors[tensor] = r
	}
	progress(layers+1, layers+1)
	return ranges, nil
}

// calibrateLayer shows a layer's outputs and rounds its matrices where they are
// wanted.
func (c *Chain) calibrateLayer(ctx context.Context, i int, see See) error {
	if c.options.Round == nil {
		return c.Layer(ctx, i, see)
	}
	g, err := c.graph(i)
	if err != nil {
		return err
	}
	r := newRounder(g)
	err = c.Layer(ctx, i, func(tensor string, values []float32) {
		see(tensor, values)
		r.see(tensor, values)
	})
	if err != nil {
		return err
	}
	return r.round(c.options.Round)
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
