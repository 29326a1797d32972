package model

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend"
)

// A cache of 8 bits has one step for all keys of a layer, and one for all values,
// but some of their elements are ten times larger than others. So each element is
// divided by what calibration found it to be in proportion to the largest before it
// is rounded; queries are multiplied by the same, and so is what the values are
// mixed to. Nothing else changes: a score is a sum over elements, and mixing leaves
// elements where they are. Two elements of a key that turn together have one factor:
// at another position the larger may be the other.

// That does not reach the gates: sdnpu check on SmolLM2-135M finds the same first
// choice at 97.07 % of 1059 positions with f16+kv8 (99.7 wanted) and at 96.69 % with
// w8a16+kv8 (98 wanted). What else would help was simulated in NumPy over exact
// weights, on 473 positions that calibration does not have, where both together cost
// 2.1e-3 nats now. Keys without the mean of the pairs that hardly turn, which a softmax
// does not notice, and rotated by a Hadamard matrix, as queries are: 0.29e-3 for keys
// alone. Values stay at 1.0e-3, rotated or not, with any one step for an element:
// tokens differ by ten times. As roots of their magnitudes they cost 0.17e-3 behind
// such keys, with a step for each token 0.07e-3; the contract has neither the operators
// nor a cache for that, and without it both recipes stay below.

// leastEven bounds how much an element is enlarged: one that was next to nothing
// in a text may be more in another.
const leastEven = 1.0 / 16

// valueRoom is how much wider than what was seen evened values reach. Other texts go
// beyond: a room of 1 costs SmolLM2-135M 2.1e-3 nats, of 1.5 1.1e-3; keys, of which
// two share a factor, need none (1.3e-3, with 1.25 1.5e-3).
const valueRoom = 1.5

// evening are the factors of a layer's keys or values, (head, element), with so much
// room; nil where there are none. The first turned elements of each head turn in
// pairs.
func (w *writer) evening(tensor string, turned int, room float32) []float32 {
	c := w.model.config
	if !w.recipe.Cache.Fixed() || w.recipe.Ranges.Channels[tensor] == nil {
		return nil
	}
	seen := w.recipe.Ranges.Channels[tensor]
	if len(seen) != c.KVHeads*c.HeadDim {
		w.Fail(fmt.Errorf("model: %w: %s has %d channels, not %d: calibrate the model again", ErrRanges, tensor, len(seen), c.KVHeads*c.HeadDim))
		return nil
	}
	whole, factors := w.recipe.Ranges.Tensors[tensor], make([]float32, len(seen))
	largest := max(-whole.Low, whole.High)
	for i, v := range seen {
		head, j := i/c.HeadDim*c.HeadDim, i%c.HeadDim
		if j < turned {
			v = max(v, seen[head+(j+turned/2)%turned])
		}
		if factors[i] = room; v < largest {
			factors[i] = room * max(v/largest, leastEven)
		}
	}
	return factors
}

// even multiplies x, (1, head, row, element), by the factors of its elements, or
// divides it.
func (w *writer) even(name string, x backend.TensorID, factors []float32, divide bool) backend.TensorID {
	if factors == nil {
		return x
	}
	values := make([]float64, len(factors))
	for i, f := range factors {
		if values[i] = float64(f); divide {
			values[i] = 1 / float64(f)
		}
	}
	return w.multiply(name, x, w.elements(name+"_factors", values))
}

// queryScale is what queries are multiplied by, with the keys' factors.
func (w *writer) queryScale(p string, factors []float32) backend.TensorID {
	if factors == nil {
		return w.plainQueryScale()
	}
	c := w.model.config
	values := make([]float64, 0, c.Heads*c.HeadDim)
	for head := range c.Heads {
		for _, f := range factors[head/c.groups()*c.HeadDim:][:c.HeadDim] {
			values = append(values, c.QueryScale*float64(f))
		}
	}
	return w.elements(p+"q_scales", values)
}

// plainQueryScale is what queries of layers without factors are multiplied by,
// declared once: a constant that nothing reads would be refused.
func (w *writer) plainQueryScale() backend.TensorID {
	if w.scale == 0 {
		w.scale = w.Constant("q_scale", w.recipe.Activations, w.scalar(w.model.config.QueryScale), 1)
	}
	return w.scale
}

// elements is a constant of (1, head, 1, element).
func (w *writer) elements(name string, values []float64) backend.TensorID {
	t, width := w.recipe.Activations, w.model.config.HeadDim
	data := make([]byte, len(values)*t.Size())
	for i, v := range values {
		put(data, i, v, t)
	}
	return w.Constant(name, t, backend.Literal(data), 1, len(values)/width, 1, width)
}
