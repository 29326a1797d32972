package backend

import (
	"fmt"
	"math"
)

// fixedType reports whether t is a fixed-point type of activations.
func fixedType(t DataType) bool { return t == Ufixed8 || t == Ufixed16 }

// denseTypes checks for one of the combinations that [FullyConnected] lists.
func denseTypes(in []*Tensor) error {
	x, w := in[0], in[1]
	if !w.Type.Fixed() {
		return floats(in)
	}
	grain := w.Encoding.Grain
	switch {
	case w.Type != Sfixed8 || grain == PerTensor:
		return fmt.Errorf("weights are %v: want s8 by rows or blocks", w.form())
	case x.Type.Float() && w.Encoding.Multiplied():
		return fmt.Errorf("x is %v, weights %v: want x of u8 or u16", x.Type, w.form())
	case x.Type == Float16 && len(in) == 3 && in[2].Type != Float16:
		return fmt.Errorf("bias is %v: want f16, as x is", in[2].Type)
	case x.Type == Float16:
		return nil
	case !fixedType(x.Type) || grain != PerRow:
		return fmt.Errorf("x is %v, weights %v: want x of f16, or of u8 or u16 with weights by rows", x.Type, w.form())
	case len(in) == 3 && (in[2].Type != Sfixed32 || in[2].Encoding.Grain != PerRow):
		return fmt.Errorf("bias is %v: want s32 by rows", in[2].form())
	}
	return nil
}

// resultEncoding returns the encoding of a node's result. The parameters must
// be present if the result is fixed-point, and absent otherwise.
func resultEncoding(n *Node, fixed bool) (Encoding, error) {
	scale, hasScale := n.Param("scale").(float32)
	offset, hasOffset := n.Param("offset").(int32)
	if hasScale != fixed || hasOffset != fixed {
		return Encoding{}, fmt.Errorf("parameters scale and offset: want them present: %v", fixed)
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
		return Tensor{}, fmt.Errorf("from %v to type %d: want floating-point to u8 or u16", in[0].Type, given)
	}
	encoding, err := resultEncoding(n, true)
	return Tensor{Type: to, Shape: in[0].Shape, Encoding: encoding}, err
}

func inferDequantize(n *Node, in []*Tensor) (Tensor, error) {
	given := n.Param("to").(uint32)
	to := DataType(given)
	if !fixedType(in[0].Type) || uint32(to) != given || !to.Float() {
		return Tensor{}, fmt.Errorf("from %v to type %d: want u8 or u16 to floating-point", in[0].Type, given)
	}
	return Tensor{Type: to, Shape: in[0].Shape}, nil
}

// inferMultiply takes floating-point tensors, or fixed-point ones of one type.
func inferMultiply(n *Node, in []*Tensor) (Tensor, error) {
	return inferEncoded(n, in, inferBroadcast)
}

// inferSigmoid takes floating-point or fixed-point tensors.
func inferSigmoid(n *Node, in []*Tensor) (Tensor, error) {
	return inferEncoded(n, in, inferSame)
}

// inferEncoded infers a node of fixed-point tensors as if they were
// floating-point ones. The result has their type and the encoding of the node's
// parameters.
func inferEncoded(n *Node, in []*Tensor, infer func(n *Node, in []*Tensor) (Tensor, error)) (Tensor, error) {
	t := in[0].Type
	encoding, err := resultEncoding(n, t.Fixed())
	if err != nil {
		return Tensor{}, err
	}
	if !t.Fixed() {
		return infer(n, in)
	}
	decoded := make([]*Tensor, len(in))
	for i, x := range in {
		if x.Type != t || !fixedType(t) {
			return Tensor{}, fmt.Errorf("input %d is %v, input 0 is %v: want all of u8 or all of u16", i, x.Type, t)
		}
		decoded[i] = &Tensor{Type: Float32, Shape: x.Shape}
	}
	out, err := infer(n, decoded)
	out.Type, out.Encoding = t, encoding
	return out, err
}
