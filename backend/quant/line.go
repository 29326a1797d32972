package quant

import (
	"errors"
	"fmt"
)

// LineSize is how many values lie on one [Line].
const LineSize = 32

// Line says where the values of a block may lie: at Minimum + q·Scale for the
// whole numbers q from 0 to 15. Scale is not negative.
type Line struct{ Scale, Minimum float32 }

// HasLines reports whether the values of format t lie on lines, so that four
// bits hold each of them exactly.
func (t Type) HasLines() bool { return t == Q4_0 || t == Q4_1 || t == Q4_K }

// Lines writes the line of each LineSize values of src, which is one or more
// whole rows of format t. Another format than [Type.HasLines] tells of is
// [errors.ErrUnsupported].
func Lines(dst []Line, src []byte, t Type) error {
	if !t.HasLines() {
		return fmt.Errorf("quant: lines of %s: %w", t, errors.ErrUnsupported)
	}
	if err := t.checkLengths(LineSize*len(dst), len(src)); err != nil {
		return err
	}
	size := t.TypeSize()
	if t == Q4_K {
		for ; len(dst) > 0; dst, src = dst[superSize/LineSize:], src[size:] {
			d, dmin := half(src), half(src[2:])
			for g := range superSize / LineSize {
				scale, minimum := scaleMin(src[4:16], g)
				dst[g] = newLine(d*float32(scale), -dmin*float32(minimum))
			}
		}
		return nil
	}
	for i := range dst {
		d := half(src[i*size:])
		minimum := -8 * d
		if t == Q4_1 {
			minimum = half(src[i*size+2:])
		}
		dst[i] = newLine(d, minimum)
	}
	return nil
}

// newLine turns a line that runs downwards round: formats have negative scales.
func newLine(scale, first float32) Line {
	if scale < 0 {
		return Line{-scale, first + 15*scale}
	}
	return Line{scale, first}
}
