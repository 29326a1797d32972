package backend

import (
	"fmt"
	"math"
)

// fixedType is a parameter "to" as one of the activations' fixed-point types.
func fixedType(t DataType) bool { return t == Ufixed8 || t == Ufixed16 }

// denseTypes demands one of the combinations that [FullyConnected] lists.
func denseTypes(in []*Tensor) error {
	x, w := in[0], in[1]
	if !w.Type.Fixed() {
		return floats(in)
	}
	grain := w.Encoding.Grain
	switch {
	case w.Type != Sfixed8 || grain == PerTensor:
		return fmt.Errorf("weights are %v: s8 by rows or blocks wanted", w.form())
	case x.Type.Float() && w.Encoding.Multiplied():
		return fmt.Errorf("x is %v, weights %v: x of u8 or u16 wanted", x.Type, w.form())
	case x.Type == Float16 && len(in) == 3 && in[2].Type != Float16:
		return fmt.Errorf("bias is %v: f16 wanted, as x is", in[2].Type)
	case x.Type == Float16:
		return nil
	case !fixedType(x.Type) || grain != PerRow:
		return fmt.Errorf("x is %v, weights %v: x of f16, or of u8 or u16 with weights by rows, wanted", x.Type, w.form())
	case len(in) == 3 && (in[2].Type != Sfixed32 || in[2].Encoding.Grain != PerRow):
		return fmt.Errorf("bias is %v: s32 by rows wanted", in[2].form())
	}
	return nil
}

// resultEncoding reads the encoding of a node's result, which must be given
// exactly where the result is fixed-point.
func resultEncoding(n *Node, fixed bool) (Encoding, error) {
	scale, hasScale := n.Param("scale").(float32)
	offset, hasOffset := n.Param("offset").(int32)
	if hasScale != fixed || hasOffset != fixed {
		return Encoding{}, fmt.Errorf("parameters scale and offset: wanted %v", fixed)
	}
	if fixed && (!(scale > 0) || math.IsInf(float64(scale), 0)) {
		return Encoding{}, fmt.Errorf("scale %v is not positive", scale)
	}
	return Encoding{Scale: scale, Offset: offset}, nil
}

func inferQuantize(n *Node, in []*Tensor) (Tensor, error) {
	given := n.Param("to").(uint32)
	to := DataType(given)
	if !in[0].Type.Float() || uint32(to) != given || !fixedType(to) {
		return Tensor{}, fmt.Errorf("from %v to type %d: from floating-point to u8 or u16 wanted", in[0].Type, given)
	}
	encoding, err := resultEncoding(n, true)
	return Tensor{Type: to, Shape: in[0].Shape, Encoding: encoding}, err
}

func inferDequantize(n *Node, in []*Tensor) (Tensor, error) {
	given := n.Param("to").(uint32)
	to := DataType(given)
	if !fixedType(in[0].Type) || uint32(to) != given || !to.Float() {
		return Tensor{}, fmt.Errorf("from %v to type %d: from u8 or u16 to floating-point wanted", in[0].Type, given)
	}
	return Tensor{Type: to, Shape: in[0].Shape}, nil
}

// inferMultiply is of floating-point numbers, or of fixed-point ones of one type.
func inferMultiply(n *Node, in []*Tensor) (Tensor, error) {
	return inferEncoded(n, in, inferBroadcast)
}

// inferSigmoid is of floating-point or of fixed-point numbers.
func inferSigmoid(n *Node, in []*Tensor) (Tensor, error) {
	return inferEncoded(n, in, inferSame)
}

// inferEncoded infers a node of fixed-point numbers as if they were
// floating-point ones; its result has their type and the node's encoding.
func inferEncoded(n *Node, in []*Tensor, infer func(n *Node, in []*Tensor) (Tensor, error)) (Tensor, error) {
	t := in[0].Type
	encoding, err := resultEncoding(n, t.Fixed())
	if err != nil {
		return Tensor{}, err
	}
	if !t.Fixed() {
		return infer(n, in)
	}
	meant := make([]*Tensor, len(in))
	for i, x := range in {
		if x.Type != t || !fixedType(t) {
			return Tensor{}, fmt.Errorf("input %d is %v, input 0 is %v: all of u8 or all of u16 wanted", i, x.Type, t)
		}
		meant[i] = &Tensor{Type: Float32, Shape: x.Shape}
	}
	out, err := infer(n, meant)
	out.Type, out.Encoding = t, encoding
	return out, err
}
