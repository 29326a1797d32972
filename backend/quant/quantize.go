package quant

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrRange is returned when a value has no place in a format: it is not finite,
// or its magnitude is above the largest float16 where scales are float16.
var ErrRange = errors.New("quant: value out of range")

// Quantize writes the values of src, one or more whole rows, as format t into
// dst. It rounds each value to the nearest code of a scale that covers its
// block, without the searches for a smaller error that quantisers for
// publishing make; quantize_test.go states the bound for each format. Lengths
// are checked as by [Dequantize].
func Quantize(dst []byte, src []float32, t Type) error {
	if !t.CanDequantize() {
		return fmt.Errorf("quant: quantize %s: %w", t, errors.ErrUnsupported)
	}
	if err := t.checkLengths(len(src), len(dst)); err != nil {
		return err
	}
	limit := float32(maxF16)
	switch t {
	case F32:
		limit = math.MaxFloat32
	case BF16:
		limit = maxBF16
	}
	if i := FirstBeyond(src, limit); i >= 0 {
		return fmt.Errorf("%w: value %d is %v, which %s does not hold", ErrRange, i, src[i], t)
	}
	block, size := t.BlockSize(), t.TypeSize()
	for ; len(src) > 0; src, dst = src[block:], dst[size:] {
		encoders[t](dst[:size], src[:block])
	}
	return nil
}

const (
	maxF16  = 65504          // the largest scale; the largest value of F16, too
	maxBF16 = 0x1.fefffep127 // the largest that rounds to a finite number
)

// encoders is indexed by Type; each writes one block.
var encoders = [...]func(dst []byte, src []float32){
	F32:  func(dst []byte, src []float32) { binary.LittleEndian.PutUint32(dst, math.Float32bits(src[0])) },
	F16:  func(dst []byte, src []float32) { putHalf(dst, src[0]) },
	BF16: func(dst []byte, src []float32) { binary.LittleEndian.PutUint16(dst, F32ToBF16(src[0])) },
	Q4_0: encodeQ4_0, Q4_1: encodeQ4_1, Q5_0: encodeQ5_0, Q5_1: encodeQ5_1, Q8_0: encodeQ8_0,
	Q2_K: encodeQ2K, Q3_K: encodeQ3K, Q4_K: encodeQ4K, Q5_K: encodeQ5K, Q6_K: encodeQ6K,
	IQ4_NL: encodeIQ4NL, IQ4_XS: encodeIQ4XS, MXFP4: encodeMXFP4,
}

// putHalf stores a float16 and returns what was stored.
func putHalf(dst []byte, f float32) float32 {
	h := F32ToF16(f)
	binary.LittleEndian.PutUint16(dst, h)
	return F16ToF32(h)
}

// peak is the value of greatest magnitude, sign included.
func peak(values []float32) float32 {
	var top float32
	for _, v := range values {
		if abs(v) > abs(top) {
			top = v
		}
	}
	return top
}

func abs(f float32) float32 { return math.Float32frombits(math.Float32bits(f) &^ (1 << 31)) }

// code is the whole number in low..high nearest to v/step; zero where nothing
// can be told apart.
func code(v, step float32, low, high int) int {
	if step == 0 {
		return min(max(0, low), high)
	}
	return min(max(int(math.RoundToEven(float64(v)/float64(step))), low), high)
}

func encodeQ8_0(dst []byte, src []float32) {
	d := putHalf(dst, abs(peak(src))/127)
	for i, v := range src {
		dst[2+i] = byte(code(v, d, -127, 127))
	}
}

// symmetric32 gives the codes of a block whose steps reach from low, where the
// peak lies, to -low-1.
func symmetric32(dst []byte, src []float32, low int) (codes [blockSize]byte) {
	d := putHalf(dst, peak(src)/float32(low))
	for i, v := range src {
		codes[i] = byte(code(v, d, low, -low-1) - low)
	}
	return codes
}

// affine32 gives the codes of a block whose steps begin at its minimum.
func affine32(dst []byte, src []float32, top int) (codes [blockSize]byte) {
	low, high := src[0], src[0]
	for _, v := range src {
		low, high = min(low, v), max(high, v)
	}
	d := putHalf(dst, (high-low)/float32(top))
	m := putHalf(dst[2:], low)
	for i, v := range src {
		codes[i] = byte(code(v-m, d, 0, top))
	}
	return codes
}

// pack4 puts the low halves of codes i and i+16 into a byte.
func pack4(dst []byte, codes *[blockSize]byte) {
	for i := range blockSize / 2 {
		dst[i] = codes[i]&15 | codes[i+blockSize/2]<<4
	}
}

// packFifth puts the fifth bit of code i into bit i.
func packFifth(dst []byte, codes *[blockSize]byte) {
	var bits uint32
	for i, c := range codes {
		bits |= uint32(c>>4) << i
	}
	binary.LittleEndian.PutUint32(dst, bits)
}

func encodeQ4_0(dst []byte, src []float32) {
	codes := symmetric32(dst, src, -8)
	pack4(dst[2:], &codes)
}

func encodeQ4_1(dst []byte, src []float32) {
	codes := affine32(dst, src, 15)
	pack4(dst[4:], &codes)
}

func encodeQ5_0(dst []byte, src []float32) {
	codes := symmetric32(dst, src, -16)
	packFifth(dst[2:], &codes)
	pack4(dst[6:], &codes)
}

func encodeQ5_1(dst []byte, src []float32) {
	codes := affine32(dst, src, 31)
	packFifth(dst[4:], &codes)
	pack4(dst[8:], &codes)
}

func encodeIQ4NL(dst []byte, src []float32) {
	codes := nearestLevels(src, putHalf(dst, peak(src)/levels4[0]), &levels4)
	pack4(dst[2:], &codes)
}

func encodeMXFP4(dst []byte, src []float32) {
	// The smallest power of two of which six reach the peak; a zero has none.
	exponent := byte(0)
	if top := float64(abs(peak(src))); top > 0 {
		exponent = byte(min(max(math.Ceil(math.Log2(top/6))+127, 0), 254))
	}
	dst[0] = exponent
	codes := nearestLevels(src, exponentHalf(exponent), &levelsE2M1)
	pack4(dst[1:], &codes)
}

func nearestLevels(src []float32, step float32, levels *[16]float32) (codes [blockSize]byte) {
	for i, v := range src {
		best := float32(math.Inf(1))
		for c, level := range levels {
			if away := abs(v - step*level); away < best {
				best, codes[i] = away, byte(c)
			}
		}
	}
	return codes
}
