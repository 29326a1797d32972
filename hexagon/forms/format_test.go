package forms

import (
	"fmt"

	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// format is an element type with the kind of its encoding.
type format struct {
	Type   qnn.DataType
	scheme scheme
	// middle is set if the real number zero is in the middle of an unsigned type's
	// integers.
	middle bool
	bits   int // bits is the number of significant bits
	block  int
}

func (f format) quantized() bool { return f.scheme != unquantized }

// formats are the types in the table of forms: a trailing z means zero in the middle, c
// means per channel, w4 means four bits in an 8-bit container.
var formats = map[string]format{
	"f16": {Type: qnn.Float16, scheme: unquantized}, "f32": {Type: qnn.Float32, scheme: unquantized},
	"i32": {Type: qnn.Int32, scheme: unquantized}, "u32": {Type: qnn.Uint32, scheme: unquantized},
	"i64": {Type: qnn.Int64, scheme: unquantized}, "uint8": {Type: qnn.Uint8, scheme: unquantized}, "bool": {Type: qnn.Bool8, scheme: unquantized},
	"u8": {Type: qnn.UFixed8}, "u16": {Type: qnn.UFixed16}, "s8": {Type: qnn.Fixed8}, "s16": {Type: qnn.Fixed16},
	"s32": {Type: qnn.Fixed32},
	"u8z": {Type: qnn.UFixed8, middle: true}, "u16z": {Type: qnn.UFixed16, middle: true},
	"s8c":    {Type: qnn.Fixed8, scheme: perChannel, bits: 8},
	"w4c":    {Type: qnn.Fixed8, scheme: bitsPerChannel, bits: 4},
	"w4in8c": {Type: qnn.Fixed8, scheme: perChannel, bits: 4},
	"w4":     {Type: qnn.Fixed8, scheme: bitsPerTensor, bits: 4},
	"lpbq64": {Type: qnn.Fixed8, scheme: lpbq, block: 64}, "lpbq32": {Type: qnn.Fixed8, scheme: lpbq, block: 32},
	"fb64": {Type: qnn.Fixed8, scheme: floatBlock, block: 64}, "fb32": {Type: qnn.Fixed8, scheme: floatBlock, block: 32},
}

func formatOf(word string) format {
	f, ok := formats[word]
	if !ok {
		panic(fmt.Sprintf("forms: no format %q", word))
	}
	return f
}

// calibrate returns an encoding with one scale that fits all values.
func (f format) calibrate(dims []int, values []float64) Encoding {
	switch {
	case !f.quantized():
		return Encoding{Scheme: unquantized}
	case f.scheme != perTensor:
		panic("forms: this format needs axes: use weights")
	case f.middle:
		return symmetric(f.Type, values)
	}
	return calibrated(f.Type, values)
}

// weights declares a constant with random elements, with output channels along one axis and
// inputs along another.
func (g *Graph) weights(word string, axis, blockAxis int, dims ...int) *Tensor {
	return g.weightsOf(word, axis, blockAxis, dims, g.normal(dims, 1))
}

func (g *Graph) weightsOf(word string, axis, blockAxis int, dims []int, wish []float64) *Tensor {
	f := formatOf(word)
	var e Encoding
	switch f.scheme {
	case perChannel, bitsPerChannel:
		e = channels(f.scheme, f.bits, axis, dims, wish)
	case bitsPerTensor:
		e = fixed(float32(largest(wish)/7), 0)
		e.Scheme, e.Bits = bitsPerTensor, 4
	case lpbq, floatBlock:
		e = blocks(f.scheme, f.block, axis, blockAxis, dims, wish)
	default:
		e = f.calibrate(dims, wish)
	}
	return g.add(qnn.Static, f, dims, wish, e)
}
