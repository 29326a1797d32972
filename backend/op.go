package backend

import (
	"errors"
	"fmt"
)

// Op is an operator by QNN's name. Each comment gives inputs → output and the
// parameters; D is the last dimension.
type Op string

const (
	// FullyConnected multiplies by a constant matrix: x [M,K], weight [N,K],
	// optional bias [N] → [M,N]. QNN's other ranks are left out: the vendor's
	// validation refuses to keep them, though its compiler would (3110).
	//
	// Types: all of one floating-point type; or x and bias Float16 with weights
	// Sfixed8 by rows or blocks; or x Ufixed8 or Ufixed16 with weights Sfixed8
	// and bias Sfixed32, both by rows, a bias's step being x's scale times the
	// row's. The last gives x's type, encoded by scale (float32) and offset
	// (int32). In QNN they are the output tensor's.
	FullyConnected Op = "FullyConnected"
	// MatMul multiplies the last two dimensions: a […,M,K], b […,K,N] → […,M,N];
	// the dimensions before are equal or 1. Parameters transpose_in0,
	// transpose_in1 (bool) read a as […,K,M], b as […,N,K].
	MatMul Op = "MatMul"
	// RmsNorm is x/√(mean(x²)+epsilon)·gamma+beta over D: x, gamma [D],
	// beta [D]; epsilon (float32). Beta is always given, all zero: older
	// versions of the vendor's library fail without it, and the library ignores
	// another one in silence, so a device may refuse that. The vendor's f16
	// form gave wrong values for rank 4 (core API 2.40), so x has rank 3 at most.
	RmsNorm Op = "RmsNorm"
	// Softmax over D.
	Softmax Op = "Softmax"
	// Add, Subtract and Multiply work element by element, sizes 1 broadcast.
	// Multiply also takes two of Ufixed8 or two of Ufixed16 and gives that type,
	// encoded by scale and offset as FullyConnected's result.
	Add      Op = "ElementWiseAdd"
	Subtract Op = "ElementWiseSubtract"
	Multiply Op = "ElementWiseMultiply"
	// Sigmoid is 1/(1+exp(-x)), also of Ufixed8 and Ufixed16 as Multiply.
	Sigmoid Op = "Sigmoid"
	// Reshape keeps the elements in order; shape (Array, Uint32) is the new shape.
	// In QNN it is the output tensor's.
	Reshape Op = "Reshape"
	// Transpose: output dimension i is input dimension perm[i] (Array,
	// Uint32).
	Transpose Op = "Transpose"
	// StridedSlice takes ranges (Array [rank,3], Int32: begin, end, stride ≥ 1).
	StridedSlice Op = "StridedSlice"
	// Concat joins its inputs along axis (uint32).
	Concat Op = "Concat"
	// Cast converts between floating-point types; to (uint32) is the DataType.
	// In QNN it is the output tensor's.
	Cast Op = "Cast"
	// TopK picks the largest elements over D: x […,D] → values […,k], the largest
	// first, and their indices […,k] of type Uint32. Parameter k (uint32, 1 to D).
	// The order of equal elements, and which of them stay out behind place k, is
	// the device's. A NaN counts as -Inf.
	TopK Op = "TopK"
	// Quantize rounds floating-point numbers to the nearest that the result can
	// hold: to (uint32) is Ufixed8 or Ufixed16, scale (float32) and offset (int32)
	// are its encoding. In QNN all three are the output tensor's.
	Quantize Op = "Quantize"
	// Dequantize gives the numbers that fixed-point elements mean; to (uint32) is
	// a floating-point DataType.
	Dequantize Op = "Dequantize"
)

// rule is what the contract knows of an operator.
type rule struct {
	minInputs, maxInputs int
	params               []paramRule
	infer                func(n *Node, in []*Tensor) (Tensor, error)
}

type paramRule struct {
	name     string
	required bool
	fits     func(value any) bool
}

func is[T any](value any) bool { _, ok := value.(T); return ok }

var rules = map[Op]rule{
	FullyConnected: {2, 3, encodingParams(false), inferFullyConnected},
	MatMul: {2, 2, []paramRule{
		{"transpose_in0", false, is[bool]},
		{"transpose_in1", false, is[bool]},
	}, inferMatMul},
	RmsNorm:      {3, 3, []paramRule{{"epsilon", true, is[float32]}}, inferRmsNorm},
	Softmax:      {1, 1, nil, inferSame},
	Add:          {2, 2, nil, inferBroadcast},
	Subtract:     {2, 2, nil, inferBroadcast},
	Multiply:     {2, 2, encodingParams(false), inferMultiply},
	Sigmoid:      {1, 1, encodingParams(false), inferSigmoid},
	Reshape:      {1, 1, []paramRule{{"shape", true, is[Array]}}, inferReshape},
	Transpose:    {1, 1, []paramRule{{"perm", true, is[Array]}}, inferTranspose},
	StridedSlice: {1, 1, []paramRule{{"ranges", true, is[Array]}}, inferStridedSlice},
	Concat:       {1, 64, []paramRule{{"axis", true, is[uint32]}}, inferConcat},
	Cast:         {1, 1, []paramRule{{"to", true, is[uint32]}}, inferCast},
	TopK:         {1, 1, []paramRule{{"k", true, is[uint32]}}, inferTopK},
	Quantize:     {1, 1, append(encodingParams(true), paramRule{"to", true, is[uint32]}), inferQuantize},
	Dequantize:   {1, 1, []paramRule{{"to", true, is[uint32]}}, inferDequantize},
}

// encodingParams are the encoding of a node's result.
func encodingParams(required bool) []paramRule {
	return []paramRule{{"scale", required, is[float32]}, {"offset", required, is[int32]}}
}

// Ops lists the operators of the contract, in no order.
func Ops() []Op {
	ops := make([]Op, 0, len(rules))
	for op := range rules {
		ops = append(ops, op)
	}
	return ops
}

// infer checks a node against its operator's rule and returns type and shape
// of its outputs.
func infer(n *Node, in []*Tensor) ([]Tensor, error) {
	r, ok := rules[n.Op]
	if !ok {
		return nil, fmt.Errorf("unknown operator: %w", errors.ErrUnsupported)
	}
	if len(in) < r.minInputs || len(in) > r.maxInputs {
		return nil, fmt.Errorf("%d inputs, %d to %d wanted", len(in), r.minInputs, r.maxInputs)
	}
	if err := r.checkParams(n); err != nil {
		return nil, err
	}
	out, err := r.infer(n, in)
	if err != nil {
		return nil, err
	}
	if err := checkShape(out.Shape); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	if n.Op == TopK { // the one operator with a second result
		return []Tensor{out, {Type: Uint32, Shape: out.Shape}}, nil
	}
	return []Tensor{out}, nil
}

func (r *rule) checkParams(n *Node) error {
	seen := make(map[string]bool, len(n.Params))
	for _, p := range n.Params {
		fits := false
		for _, rule := range r.params {
			fits = fits || rule.name == p.Name && rule.fits(p.Value)
		}
		if !fits || seen[p.Name] {
			return fmt.Errorf("parameter %s %T is unknown, of a wrong type or given twice", p.Name, p.Value)
		}
		seen[p.Name] = true
	}
	for _, rule := range r.params {
		if rule.required && !seen[rule.name] {
			return fmt.Errorf("parameter %s is missing", rule.name)
		}
	}
	return nil
}
