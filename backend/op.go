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
	// optional bias [N] → [M,N]. Other ranks, which QNN has, are left out: the
	// vendor's validation rejects some that its compiler would accept (3110).
	//
	// There are three combinations of types. All tensors have one
	// floating-point type. Or x and bias are Float16 with weights of Sfixed8 by
	// rows or blocks. Or x is Ufixed8 or Ufixed16 with weights of Sfixed8 by
	// rows and bias of Sfixed32 by rows, where a bias's scale is x's scale
	// times the row's. In the last case the result has x's type, with the
	// encoding of the parameters scale (float32) and offset (int32), which QNN
	// has in the output tensor.
	FullyConnected Op = "FullyConnected"
	// MatMul multiplies the last two dimensions: a […,M,K], b […,K,N] →
	// […,M,N]. Each earlier dimension of a and b is equal, or 1. The parameters
	// transpose_in0 and transpose_in1 (bool) read a as […,K,M] and b as
	// […,N,K].
	MatMul Op = "MatMul"
	// RmsNorm computes x/√(mean(x²)+epsilon)·gamma+beta over D: x, gamma [D],
	// beta [D]; parameter epsilon (float32). Beta is required and all zero:
	// older versions of the vendor's library fail without it and silently
	// ignore other values, so a device may reject them. x has at most rank 3,
	// because the vendor's f16 form gave wrong values for rank 4 (core API
	// 2.40).
	RmsNorm Op = "RmsNorm"
	// Softmax normalises over D.
	Softmax Op = "Softmax"
	// Add, Subtract and Multiply work element by element and broadcast sizes of
	// 1. Multiply also takes two tensors of Ufixed8 or two of Ufixed16. The
	// result then has that type, encoded by scale and offset as in
	// FullyConnected.
	Add      Op = "ElementWiseAdd"
	Subtract Op = "ElementWiseSubtract"
	Multiply Op = "ElementWiseMultiply"
	// Sigmoid computes 1/(1+exp(-x)). It takes Ufixed8 and Ufixed16 as Multiply
	// does.
	Sigmoid Op = "Sigmoid"
	// Reshape keeps the elements in order. Parameter shape (Array, Uint32) is
	// the new shape, which QNN has in the output tensor.
	Reshape Op = "Reshape"
	// Transpose reorders dimensions: output dimension i is input dimension
	// perm[i] (Array, Uint32).
	Transpose Op = "Transpose"
	// StridedSlice takes parts of all dimensions. Parameter ranges (Array
	// [rank,3], Int32) holds begin, end and stride ≥ 1 of each.
	StridedSlice Op = "StridedSlice"
	// Concat joins its inputs along parameter axis (uint32).
	Concat Op = "Concat"
	// Cast converts between floating-point types. Parameter to (uint32) is the
	// DataType, which QNN has in the output tensor.
	Cast Op = "Cast"
	// TopK selects the largest elements over D: x […,D] → values […,k], the
	// largest first, and their indices […,k] of type Uint32. Parameter k
	// (uint32) is 1..D. Devices may order equal elements, and choose among
	// equal ones at the end, as they like. A NaN counts as -Inf.
	TopK Op = "TopK"
	// Quantize rounds floating-point numbers to the nearest value that the
	// result can hold. Parameter to (uint32) is Ufixed8 or Ufixed16; scale
	// (float32) and offset (int32) are its encoding. QNN has all three in the
	// output tensor.
	Quantize Op = "Quantize"
	// Dequantize converts fixed-point elements to floating-point numbers.
	// Parameter to (uint32) is a floating-point DataType.
	Dequantize Op = "Dequantize"
)

// rule describes an operator: its numbers of inputs, its parameters, and the
// function that infers its first result.
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

// encodingParams returns the parameters of a result's encoding.
func encodingParams(required bool) []paramRule {
	return []paramRule{{"scale", required, is[float32]}, {"offset", required, is[int32]}}
}

// Ops returns the operators of the contract, in no order.
func Ops() []Op {
	ops := make([]Op, 0, len(rules))
	for op := range rules {
		ops = append(ops, op)
	}
	return ops
}

// infer checks a node against its operator's rule and returns the types, shapes
// and encodings of its outputs.
func infer(n *Node, in []*Tensor) ([]Tensor, error) {
	r, ok := rules[n.Op]
	if !ok {
		return nil, fmt.Errorf("unknown operator: %w", errors.ErrUnsupported)
	}
	if len(in) < r.minInputs || len(in) > r.maxInputs {
		want := fmt.Sprint(r.minInputs)
		if r.maxInputs > r.minInputs {
			want += fmt.Sprintf("..%d", r.maxInputs)
		}
		return nil, fmt.Errorf("%d inputs: want %s", len(in), want)
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
			return fmt.Errorf("parameter %s %T is unknown, has a wrong type or is given twice", p.Name, p.Value)
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
