package backendtest

import (
	"math"

	"github.com/sdnpu/sdnpu/backend"
)

// Block stands for a whole transformer block where a [Tolerance] is asked.
const Block backend.Op = "block"

// Tolerance is the largest allowed error of an operator whose tensors have
// type t: rms(error)/rms(reference) over the result. Zero demands equal
// elements.
type Tolerance func(op backend.Op, t backend.DataType) float64

// Single is for devices that compute in float32 and round each result to its
// type once. Rounding to float16 alone gives 2.1e-4, whatever the operator.
func Single(op backend.Op, t backend.DataType) float64 {
	switch {
	case moves(op):
		return 0
	case op == Block && t == backend.Float16:
		return 2e-3
	case op == Block:
		return 2e-6
	case t == backend.Ufixed16: // what lies between two steps may go either way
		return 5e-5
	case t == backend.Ufixed8, op == backend.Quantize:
		return 5e-3
	case t == backend.Float16:
		return 3.5e-4
	}
	return 1e-6
}

// Half is for devices that compute in float16 whatever the type, as the NPU
// does. The limits are about twice what the vendor's x86-64 library was
// measured at (build v2.51.0.260929181845, SM8650).
func Half(op backend.Op, t backend.DataType) float64 {
	switch { // a step to either side, of 16 bits a few
	case t == backend.Ufixed16:
		return 1e-3
	case t == backend.Ufixed8, op == backend.Quantize:
		return 4e-2
	}
	switch op {
	case backend.Softmax:
		return 5e-3
	case backend.Sigmoid, backend.Add, backend.Subtract, backend.Multiply:
		return 8e-4
	case Block:
		return 1e-2
	}
	if moves(op) && t == backend.Float16 {
		return 0
	}
	return 8e-4
}

// moves tells operators whose results are elements of their inputs.
func moves(op backend.Op) bool {
	switch op {
	case backend.Reshape, backend.Transpose, backend.StridedSlice, backend.Concat, backend.TopK:
		return true
	}
	return false
}

// relativeError is rms(got-want)/rms(want); it is infinite where got is not
// finite, and 0 only for equal elements.
func relativeError(got, want []float64) float64 {
	var wrong, size float64
	for i := range want {
		d := got[i] - want[i]
		if math.IsNaN(d) || math.IsInf(d, 0) {
			return math.Inf(1)
		}
		wrong += d * d
		size += want[i] * want[i]
	}
	switch {
	case wrong == 0:
		return 0
	case size == 0:
		return math.Inf(1)
	}
	return math.Sqrt(wrong / size)
}
