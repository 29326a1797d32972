package cpu

import (
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// kernel computes one node. Elements stand as float32, integers as the bits of
// one. out does not overlap in, and may hold anything before. A second result
// stands behind the inputs.
type kernel func(w workers, out []float32, in [][]float32)

// kernels makes the kernel of a node that passed [backend.Graph.Validate].
var kernels = map[backend.Op]func(n *backend.Node, in []*backend.Tensor, out *backend.Tensor) kernel{
	backend.FullyConnected: fullyConnected,
	backend.MatMul:         matMul,
	backend.RmsNorm:        rmsNorm,
	backend.Softmax:        softmax,
	backend.Add:            elementWise(func(a, b float32) float32 { return a + b }, addRun),
	backend.Subtract:       elementWise(func(a, b float32) float32 { return a - b }, subtractRun),
	backend.Multiply:       elementWise(func(a, b float32) float32 { return a * b }, multiplyRun),
	backend.Sigmoid:        sigmoid,
	backend.Reshape:        same,
	backend.Transpose:      transpose,
	backend.StridedSlice:   stridedSlice,
	backend.Concat:         concat,
	backend.Cast:           same,
	backend.TopK:           topK,
	backend.Quantize:       same,
	backend.Dequantize:     same,
}

// same moves elements as they are. For conversions, the rounding that follows
// each kernel does the work.
func same(*backend.Node, []*backend.Tensor, *backend.Tensor) kernel {
	return func(_ workers, out []float32, in [][]float32) { copy(out, in[0]) }
}

// moves tells operators whose results are elements of their inputs: they need
// no rounding.
func moves(op backend.Op) bool {
	switch op {
	case backend.Reshape, backend.Transpose, backend.StridedSlice, backend.Concat, backend.TopK:
		return true
	}
	return false
}

// rounding is what makes a node's result what its tensor can hold.
func rounding(op backend.Op, out *backend.Tensor) func(w workers, x []float32) {
	switch {
	case moves(op):
		return nil
	case out.Type == backend.Float16:
		return roundHalf
	case out.Type.Fixed():
		return roundFixed(out)
	}
	return nil
}

// roundHalf makes every element a float16 number.
func roundHalf(w workers, x []float32) {
	w.each(len(x), grain, func(lo, hi int) {
		part := x[lo:hi]
		for i, v := range part {
			part[i] = quant.F16ToF32(quant.F32ToF16(v))
		}
	})
}

// steps returns the row-major distances between elements.
func steps(shape []int) []int {
	s := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

func last(shape []int) int { return shape[len(shape)-1] }
