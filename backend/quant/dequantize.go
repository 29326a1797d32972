package quant

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Dequantize writes the values of src, which is one or more whole rows of
// format t, into dst. Both lengths must agree exactly. A format that this
// package does not decode is [errors.ErrUnsupported].
func Dequantize(dst []float32, src []byte, t Type) error {
	if !t.CanDequantize() {
		return fmt.Errorf("quant: dequantize %s: %w", t, errors.ErrUnsupported)
	}
	want, err := t.SizeBytes(len(dst))
	if err != nil {
		return err
	}
	if len(src) != want {
		return fmt.Errorf("%w: %d bytes for %d values of %s, which take %d", ErrLength, len(src), len(dst), t, want)
	}
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case F16:
		return DecodeF16(dst, src)
	case BF16:
		for i := range dst {
			dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case Q8_0:
		dequantizeQ8_0(dst, src)
	case Q4_0:
		dequantizeQ4_0(dst, src)
	case Q4_1:
		dequantizeQ4_1(dst, src)
	}
	return nil
}

// CanDequantize reports whether [Dequantize] decodes the format.
func (t Type) CanDequantize() bool {
	switch t {
	case F32, F16, BF16, Q8_0, Q4_0, Q4_1:
		return true
	}
	return false
}

const blockSize = 32 // of the three formats below

func dequantizeQ8_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[blockSize:], src[34:] {
		d := F16ToF32(binary.LittleEndian.Uint16(src))
		values, quants := dst[:blockSize], src[2:34]
		for i, q := range quants {
			values[i] = d * float32(int8(q))
		}
	}
}

func dequantizeQ4_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[blockSize:], src[18:] {
		d := F16ToF32(binary.LittleEndian.Uint16(src))
		low, high := dst[:blockSize/2], dst[blockSize/2:blockSize]
		for i, q := range src[2:18] {
			low[i] = d * float32(int(q&15)-8)
			high[i] = d * float32(int(q>>4)-8)
		}
	}
}

func dequantizeQ4_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[blockSize:], src[20:] {
		d := F16ToF32(binary.LittleEndian.Uint16(src))
		m := F16ToF32(binary.LittleEndian.Uint16(src[2:]))
		low, high := dst[:blockSize/2], dst[blockSize/2:blockSize]
		for i, q := range src[4:20] {
			low[i] = d*float32(q&15) + m
			high[i] = d*float32(q>>4) + m
		}
	}
}
