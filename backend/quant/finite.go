package quant

import (
	"encoding/binary"
	"math"
)

// FirstBeyond returns the index of the first value whose magnitude exceeds
// limit or that is not a number, or -1. A limit of [math.MaxFloat32] finds
// values that are not finite. It reads gigabytes per second
// (BenchmarkFirstBeyond), so every conversion can afford it.
func FirstBeyond(values []float32, limit float32) int {
	// As integers, magnitudes keep their order; infinity and NaNs follow.
	top := math.Float32bits(limit) &^ (1 << 31)
	for i, v := range values {
		if math.Float32bits(v)&^(1<<31) > top {
			return i
		}
	}
	return -1
}

// FirstNotFiniteF16 returns the index of the first infinity or NaN among
// little-endian float16 numbers, or -1. It ignores an odd last byte.
func FirstNotFiniteF16(src []byte) int {
	const (
		exponents = 0x7c00_7c00_7c00_7c00
		carry     = 0x7fff_7fff_7fff_7fff
	)
	i := 0
	for ; i+8 <= len(src); i += 8 {
		// The bits that an exponent does not have set. Adding 0x7fff carries
		// into the sign of each number unless all are set.
		unset := binary.LittleEndian.Uint64(src[i:])&exponents ^ exponents
		if unset+carry|carry != math.MaxUint64 {
			break
		}
	}
	for ; i+2 <= len(src); i += 2 {
		if src[i+1]&0x7c == 0x7c {
			return i / 2
		}
	}
	return -1
}
