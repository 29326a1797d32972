package model

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend"
)

// tileRows are rows that the NPU keeps side by side, and shapedRows the most that
// shaped graphs have.
const tileRows, shapedRows = 4, 64

// shaped tells whether some tensors are given the shapes that cost the NPU least
// at a few dozens of rows; no element changes by it. Of one row the NPU hides such
// work behind the reading of weights, and at 128 rows one chip gains by it what
// others lose (adapters/estimate/testdata, form "other shapes").
func (w *writer) shaped() bool {
	return w.rows > 1 && w.rows <= shapedRows && w.recipe.Linear.Activations == backend.Ufixed16
}

// heads turns [M,n·D] into [1,n,M,D]; each head is normalised by gamma [D]
// unless that is nil. The norm works on rank 2: see the package comment.
func (w *writer) heads(name string, x backend.TensorID, n int, gamma *weight) backend.TensorID {
	m, d := w.rows, w.model.config.HeadDim
	if gamma != nil {
		x = w.norm(name+"_norm", w.Reshape(name+"_flat", x, m*n, d), gamma)
	}
	x = w.Reshape(name+"_heads", x, 1, m, n, d)
	return w.Transpose(name+"_rows", x, 0, 2, 1, 3)
}

// queries are those of all heads, [1,heads,M,D]. Integers become numbers between
// the cut into heads and the change of their order: one step earlier or later the
// NPU takes up to 4 % longer for a layer of 32 rows.
func (w *writer) queries(name string, h backend.TensorID, t *layer) backend.TensorID {
	l := w.way(name, h)
	m, n, d := w.rows, w.model.config.Heads, w.model.config.HeadDim
	if !w.shaped() || l.Activations == 0 || t[queryNorm] != nil {
		return w.heads(name, w.project(l, name, h, t[query], t[queryBias]), n, t[queryNorm])
	}
	x := w.Reshape(name+"_heads_q", w.fixedProject(l, name, h, t[query], t[queryBias]), 1, m, n, d)
	x = w.Dequantize(name+"_heads", x, w.recipe.Activations)
	return w.Transpose(name+"_rows", x, 0, 2, 1, 3)
}

// turns are cosines and sines of the rows' angles, [1,heads,M,R/2] or [1,1,M,R/2]
// for all heads.
type turns struct{ cos, sin backend.TensorID }

// across are the angles of a view for n heads. The NPU multiplies tensors of one
// shape up to ten times as fast as one by another that all heads share. Products
// with ones, which a block makes once, because what is concatenated instead is
// read from memory in other pieces, and the keys with it.
func (w *writer) across(v viewInputs, n int) turns {
	if !w.shaped() || n == 1 {
		return v.turns
	}
	wide, known := v.wide[n]
	if !known {
		t := w.recipe.Activations
		ones := make([]byte, n*t.Size())
		for i := range n {
			put(ones, i, 1, t)
		}
		of := func(x backend.TensorID) string { return fmt.Sprintf("%s_of%d", w.Name(x), n) }
		one := w.Constant(of(v.cos)+"_ones", t, backend.Literal(ones), 1, n, 1, 1)
		wide = turns{cos: w.multiply(of(v.cos), v.cos, one), sin: w.multiply(of(v.sin), v.sin, one)}
		v.wide[n] = wide
	}
	return wide
}

// rope turns element j of every head together with element j+R/2 of the R
// that turn; what is behind them stays. The result is called name, the pieces
// start with prefix.
func (w *writer) rope(name, prefix string, x backend.TensorID, v turns) backend.TensorID {
	d, r := w.model.config.HeadDim, w.model.config.RopeDim
	a := w.Slice(prefix+"_lower", x, 3, 0, r/2)
	b := w.Slice(prefix+"_upper", x, 3, r/2, r)
	lower := w.Apply(prefix+"_lower_turned", backend.Subtract, []backend.TensorID{
		w.multiply(prefix+"_lower_cos", a, v.cos), w.multiply(prefix+"_upper_sin", b, v.sin),
	})
	upper := w.add(prefix+"_upper_turned",
		w.multiply(prefix+"_upper_cos", b, v.cos), w.multiply(prefix+"_lower_sin", a, v.sin))
	if r == d {
		return w.Concat(name, 3, lower, upper)
	}
	return w.Concat(name, 3, lower, upper, w.Slice(prefix+"_rest", x, 3, r, d))
}

// linearInTiles is linear for a result that is added to hidden states. Its
// integers become numbers in the order in which those are kept; as plain rows the
// NPU turns them over first.
func (w *writer) linearInTiles(name string, x backend.TensorID, matrix, bias *weight) backend.TensorID {
	l := w.way(name, x)
	if !w.shaped() || l.Activations == 0 || w.rows%tileRows != 0 {
		return w.project(l, name, x, matrix, bias)
	}
	y := w.fixedProject(l, name, x, matrix, bias)
	n := w.Shape(y)[1]
	y = w.Reshape(name+"_tiles_q", y, 1, w.rows/tileRows, tileRows, n)
	return w.Reshape(name, w.Dequantize(name+"_tiles", y, w.recipe.Activations), w.rows, n)
}
