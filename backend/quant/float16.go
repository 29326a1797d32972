package quant

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/sdnpu/sdnpu/backend"
)

// F16ToF32 returns the value of float16 bits. It is exact.
func F16ToF32(h uint16) float32 {
	// Moving exponent and fraction into place leaves a number that is too small
	// by 2^(127-15). The multiplication repairs that for normal and subnormal
	// numbers alike; results of 2^16 or more were infinite or NaN.
	magnitude := math.Float32bits(math.Float32frombits(uint32(h&0x7fff)<<13) * 0x1p112)
	if magnitude >= 0x47800000 {
		magnitude |= 0x7f800000
	}
	return math.Float32frombits(magnitude | uint32(h&0x8000)<<16)
}

// F32ToF16 returns the float16 bits nearest to f, ties to even. Magnitudes of
// 65520 and more become infinite; a NaN keeps its sign and upper bits.
func F32ToF16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := bits & 0x7fffffff
	switch {
	case magnitude > 0x7f800000: // NaN; the quiet bit keeps it one
		return sign | 0x7e00 | uint16(magnitude>>13&0x01ff)
	case magnitude >= 0x47800000: // 2^16 and more
		return sign | 0x7c00
	case magnitude < 0x38800000: // below 2^-14: subnormal or zero
		// Near one half, float32 numbers have the spacing of float16
		// subnormals, 2^-24: the addition rounds, and the low bits are the result.
		rounded := math.Float32bits(math.Float32frombits(magnitude) + 0.5)
		return sign | uint16(rounded-0x3f000000)
	}
	// Rebias the exponent, then round away the lower 13 bits. A carry out of
	// the fraction raises the exponent, up to infinity, which is right.
	rebased := magnitude - (127-15)<<23
	return sign | uint16((rebased+0x0fff+rebased>>13&1)>>13)
}

// BF16ToF32 returns the value of bfloat16 bits. It is exact.
func BF16ToF32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// DecodeF16 converts little-endian float16 numbers. src has two bytes per value
// of dst.
func DecodeF16(dst []float32, src []byte) error {
	if len(src) != 2*len(dst) {
		return fmt.Errorf("%w: %d bytes of F16 for %d values", ErrLength, len(src), len(dst))
	}
	decodeF16(dst, src)
	return nil
}

// DecodeFloats converts little-endian numbers of a float type of the device
// contract. src holds exactly len(dst) numbers. For another type, the error wraps
// [errors.ErrUnsupported].
func DecodeFloats(dst []float32, src []byte, t backend.DataType) error {
	switch t {
	case backend.Float16:
		return Dequantize(dst, src, F16)
	case backend.Float32:
		return Dequantize(dst, src, F32)
	}
	return fmt.Errorf("quant: decode %v as floats: %w", t, errors.ErrUnsupported)
}

// EncodeF16 rounds values to little-endian float16 numbers. dst has two bytes per
// value of src.
func EncodeF16(dst []byte, src []float32) error {
	if len(dst) != 2*len(src) {
		return fmt.Errorf("%w: %d bytes of F16 for %d values", ErrLength, len(dst), len(src))
	}
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToF16(f))
	}
	return nil
}
