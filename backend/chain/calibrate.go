package chain

import (
	"context"
	"errors"

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
	ranges := &model.Ranges{Tensors: make(map[string]model.Range)}
	see := func(tensor string, values []float32) {
		if tensor != model.PortY { // the hidden states, under one name behind all layers
			ranges.Add(tensor, values)
		}
	}
	layers := m.Config().Layers
	for i := range layers {
		progress(i, layers+1)
		if err := c.Layer(ctx, i, see); err != nil {
			return nil, err
		}
	}
	progress(layers, layers+1)
	head, err := c.Head(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, head.Close()) }()
	for i, text := range texts {
		for at := 0; at < len(text); at += head.Rows() {
			if _, err := head.Logits(ctx, i, at, see); err != nil {
				return nil, err
			}
		}
	}
	progress(layers+1, layers+1)
	return ranges, nil
}
