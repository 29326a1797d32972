package backend

import (
	"fmt"
	"math"
)

// Encoding says what the integers of a fixed-point tensor mean: real numbers
// are (stored + offset) · scale, as in QNN. It is zero for all other types.
type Encoding struct {
	// Grain says which elements share a scale and an offset.
	Grain Grain
	// Scale and Offset belong to PerTensor; those of finer grains are part of a
	// constant's values, see [Values].
	Scale  float32
	Offset int32
	// Block is the number of neighbours along the last dimension that share a
	// scale, for PerBlock, or a multiple, for PerRow: see [Encoding.Multiplied].
	Block int
	// Bits are the significant ones of an element, the others being copies of
	// its sign. Zero means all of them.
	Bits int
}

// MostMultiple is the largest multiple of a block: see [Encoding.Multiplied].
const MostMultiple = 16

// Multiplied tells whether the elements of each block are integers of Bits bits
// times a whole number of the block's own, from 1 to [MostMultiple]. Stored are
// the products, in steps of their row.
func (e Encoding) Multiplied() bool { return e.Grain == PerRow && e.Block != 0 }

// Grain is what has a scale of its own.
type Grain uint8

// The grains. Only constants have one finer than PerTensor: rows are those of a
// matrix [N,K], so that an output channel has one scale; a vector has one for
// each element.
const (
	PerTensor Grain = iota
	PerRow
	PerBlock
)

// Step is the scale and the offset of a row or of a block. Offsets are whole
// numbers except in blocks, and zero in rows.
type Step struct{ Scale, Offset float32 }

// Steps is how many steps a tensor's values have besides its elements: none
// where the encoding says it all.
func (t *Tensor) Steps() int {
	switch t.Encoding.Grain {
	case PerRow:
		return t.Shape[0]
	case PerBlock:
		return t.Elements() / t.Encoding.Block
	}
	return 0
}

// Limits are the least and the largest integer of an encoded tensor of type t;
// both are zero for types that are not fixed-point.
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

// form describes what a rule looks at.
func (t *Tensor) form() string {
	text := fmt.Sprintf("%v%v", t.Type, t.Shape)
	if t.Type.Fixed() {
		text += fmt.Sprintf(" %+v", t.Encoding)
	}
	return text
}

// checkEncoding refuses encodings that mean nothing.
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
			return fmt.Errorf("encoding %+v: a positive scale wanted", e)
		}
		return nil
	case e.Grain > PerBlock || e.Scale != 0 || e.Offset != 0 || t.Kind != Constant:
		return fmt.Errorf("encoding %+v: scales of rows and blocks belong to the values of a constant", e)
	case e.Multiplied() && (t.Type != Sfixed8 || e.Bits == 0 || e.Bits > 4):
		return fmt.Errorf("encoding %+v of %v: multiples of up to 4 bits in s8 wanted", e, t.Type)
	case (e.Multiplied() || e.Grain == PerBlock) && (e.Block < 1 || len(t.Shape) != 2 || t.Shape[1]%e.Block != 0):
		return fmt.Errorf("encoding %+v of shape %v", e, t.Shape)
	}
	return nil
}
