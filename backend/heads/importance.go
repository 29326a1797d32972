package heads

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrTexts is returned if texts are too short or too many for a measurement.
var ErrTexts = errors.New("the texts do not suit the measurement")

// Measure measures the importance of all heads and layers: the loss with a zeroed result of
// attention, minus the loss without a change. The last `rows` tokens of each text that have a next
// token count. Only in these rows results are zeroed, so the tokens before are computed once. All
// texts together have at most Width such rows. progress, if not nil, is called with the number of
// finished parts.
func (m *Model) Measure(ctx context.Context, texts [][]int32, rows int, progress func(done, total int)) (*Importance, error) {
	if progress == nil {
		progress = func(int, int) {}
	}
	if len(texts)*rows > m.width || rows < 1 || len(texts) == 0 {
		return nil, fmt.Errorf("heads: %w: %d texts of %d counted rows, want 1 to %d rows together", ErrTexts, len(texts), rows, m.width)
	}
	c := m.config
	total := len(texts) + c.Layers
	var counted []Row
	for i, tokens := range texts {
		if len(tokens) < rows+1 {
			return nil, fmt.Errorf("heads: %w: text %d has %d tokens, want more than %d", ErrTexts, i, len(tokens), rows)
		}
		t := m.NewText(tokens)
		first := len(tokens) - 1 - rows
		if err := m.Compute(ctx, t, 0, first, m.width, Dense, nil); err != nil {
			return nil, err
		}
		counted = append(counted, t.Span(first, first+rows)...)
		progress(i+1, total)
	}
	x, err := m.Embed(counted)
	if err != nil {
		return nil, err
	}
	p := &Importance{}
	states, mixes := [][]float32{}, [][]float32{} // the input and the results of attention of each layer
	for layer := range c.Layers {
		mixed, err := m.Attend(ctx, layer, counted, x, Dense)
		if err != nil {
			return nil, err
		}
		states, mixes = append(states, x), append(mixes, mixed)
		if x, err = m.Finish(ctx, layer, x, mixed); err != nil {
			return nil, err
		}
	}
	plain, err := m.meanLoss(ctx, counted, x)
	if err != nil {
		return nil, err
	}
	for layer := range c.Layers {
		changed := func(from, to int) (float64, error) {
			loss, err := m.zeroed(ctx, layer, counted, states[layer], mixes[layer], from, to)
			return loss - plain, err
		}
		heads := make([]float64, c.Heads)
		for h := range heads {
			if heads[h], err = changed(h, h+1); err != nil {
				return nil, err
			}
		}
		all, err := changed(0, c.Heads)
		if err != nil {
			return nil, err
		}
		p.Heads, p.Layers = append(p.Heads, heads), append(p.Layers, all)
		progress(len(texts)+layer+1, total)
	}
	return p, nil
}

// zeroed returns the mean loss if the results of the heads [from, to) of a layer are zero.
func (m *Model) zeroed(ctx context.Context, layer int, rows []Row, x, mixed []float32, from, to int) (float64, error) {
	mixed = slices.Clone(mixed)
	dim := m.config.HeadDim
	for r := range rows {
		clear(mixed[(r*m.config.Heads+from)*dim : (r*m.config.Heads+to)*dim])
	}
	y, err := m.Finish(ctx, layer, x, mixed)
	if err != nil {
		return 0, err
	}
	if y, err = m.Run(ctx, layer+1, rows, y, Dense); err != nil {
		return 0, err
	}
	return m.meanLoss(ctx, rows, y)
}

// meanLoss returns the mean of the losses of rows.
func (m *Model) meanLoss(ctx context.Context, rows []Row, y []float32) (mean float64, err error) {
	losses, err := m.Losses(ctx, rows, y)
	for _, v := range losses {
		mean += v / float64(len(losses))
	}
	return mean, err
}
