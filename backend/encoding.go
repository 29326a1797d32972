package backend

import (
	"fmt"
	"math"
)

// Encoding defines the real numbers of a fixed-point tensor: (stored + offset) · scale, as in QNN.
// It is zero for all other types.
type Encoding struct {
	// Grain selects the elements that share a scale and an offset.
	Grain Grain
	// Scale and Offset apply to PerTensor. Finer grains have theirs among the
	// constant's values, see [Values].
	Scale  float32
	Offset int32
	// Block is the number of neighbours along the last dimension that share a
	// scale (PerBlock) or a multiple (PerRow, see [Encoding.Multiplied]).
	Block int
	// Bits is the number of significant bits of an element; the other bits
	// repeat its sign. Zero means all bits.
	Bits int
}

// MostMultiple is the largest multiple of a block, see [Encoding.Multiplied].
const MostMultiple = 16

// Multiplied reports whether a row's blocks have multiples: each element is an
// integer of Bits bits, times an integer of its block from 1 to [MostMultiple].
// The tensor stores the products in units of the row's scale.
func (e Encoding) Multiplied() bool { return e.Grain == PerRow && e.Block != 0 }

// Grain is the part of a tensor that has a scale of its own.
type Grain uint8

// The grains. Only constants may have one that is finer than PerTensor. A row
// is a row of a matrix [N,K], so each output channel has a scale. In a vector,
// each element has one.
const (
	PerTensor Grain = iota
	PerRow
	PerBlock
)

// ScaleOffset is the encoding of a row or block: real numbers are (stored +
// Offset) · Scale. Offset is the negative of the zero point. It is zero in
// rows, and may be fractional in blocks.
type ScaleOffset struct{ Scale, Offset float32 }

// ScaleCount returns the number of scales among a constant's values. It is zero
// if the scale is part of the encoding.
func (t *Tensor) ScaleCount() int {
	switch t.Encoding.Grain {
	case PerRow:
		return t.Shape[0]
	case PerBlock:
		return t.Elements() / t.Encoding.Block
	}
	return 0
}

// Limits returns the smallest and the largest integer that a tensor of type t
// can hold. Both are zero for types that are not fixed-point.
func (e Encoding) Limits(t DataType) (low, high float64) {
	if !t.Fixed() {
		return 0, 0
	}
	bits := 8 * t.Size()
	if e.Bits != 0 {
		bits = e.Bits
	}
	if t == Ufixed8 || t == Ufixed16 {
		return 0, math.Exp2(float64(bits)) - 1
	}
	half := math.Exp2(float64(bits - 1))
	if e.Multiplied() {
		return -half * MostMultiple, (half - 1) * MostMultiple
	}
	return -half, half - 1
}

// form describes the properties of a tensor that rules check.
func (t *Tensor) form() string {
	text := fmt.Sprintf("%v%v", t.Type, t.Shape)
	if t.Type.Fixed() {
		text += fmt.Sprintf(" %+v", t.Encoding)
	}
	return text
}

// checkEncoding rejects encodings without a meaning.
func (t *Tensor) checkEncoding() error {
	e := t.Encoding
	switch {
	case !t.Type.Fixed():
		if e != (Encoding{}) {
			return fmt.Errorf("%v has no encoding", t.Type)
		}
		return nil
	case e.Bits < 0 || e.Bits == 1 || e.Bits > 8*t.Type.Size():
		return fmt.Errorf("%d significant bits of %v", e.Bits, t.Type)
	case e.Grain == PerTensor:
		if !(e.Scale > 0) || math.IsInf(float64(e.Scale), 0) || e.Block != 0 {
			return fmt.Errorf("encoding %+v: want a positive scale", e)
		}
		return nil
	case e.Grain > PerBlock || e.Scale != 0 || e.Offset != 0 || t.Kind != Constant:
		return fmt.Errorf("encoding %+v: scales of rows and blocks belong to the values of a constant", e)
	case e.Multiplied() && (t.Type != Sfixed8 || e.Bits == 0 || e.Bits > 4):
		return fmt.Errorf("encoding %+v of %v: want multiples of up to 4 bits in s8", e, t.Type)
	case (e.Multiplied() || e.Grain == PerBlock) && (e.Block < 1 || len(t.Shape) != 2 || t.Shape[1]%e.Block != 0):
		return fmt.Errorf("encoding %+v of shape %v", e, t.Shape)
	}
	return nil
}
