// Package quant knows the numeric formats of GGUF tensors: their names and
// sizes, how to turn them into float32 and, simply, how to write them. It also
// converts between float32 and the 16-bit floats, and finds values that are not
// finite.
//
// It reads F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL,
// IQ4_XS and MXFP4; asking for another format is [errors.ErrUnsupported] with
// its name. Its quantiser is for tests and for our own weights: right, bounded
// and repeatable, not the best that a format can do.
//
// # Formats
//
// A block format stores consecutive values of a row together with their scale
// (ggml-common.h, github.com/ggml-org/ggml, states the layouts; d and m are
// float16, all integers little-endian). Blocks of 32:
//
//	Q8_0    d, 32 × int8               value = d·q
//	Q4_0    d, 16 bytes                value = d·(q−8)
//	Q4_1    d, m, 16 bytes             value = d·q + m
//	Q5_0    d, 32 bits, 16 bytes       value = d·(q−16)
//	Q5_1    d, m, 32 bits, 16 bytes    value = d·q + m
//	IQ4_NL  d, 16 bytes                value = d·level[q]
//	MXFP4   exponent byte, 16 bytes    value = 2^(e−128)·level[q]
//
// Byte i of a 4-bit block holds value i in its low and value i+16 in its high
// half; bit i of the 32 is the fifth of value i. Blocks of 256 have a small
// integer scale s (and minimum t) for each 16 or 32 values; superblock.go says
// how they are packed:
//
//	Q2_K, Q4_K, Q5_K    value = d·s·q − dmin·t
//	Q3_K, Q6_K          value = d·s·q, q signed
//	IQ4_XS              value = d·s·level[q]
//
// # Invariants
//
//   - every product is exact in float32 (a scale of 11 bits, an integer scale
//     of up to 7 and a code of up to 7), so the result is the same on every
//     machine, fused multiply-add or not, and the same bits as ggml's;
//   - rounding to a 16-bit float is to nearest, ties to even; what overflows is
//     infinite, and a NaN stays a NaN;
//   - a length that does not fit is an error before anything is written.
//
// Dequantising writes 1 (Q6_K, Q3_K) to 5 (Q4_0) GB of float32 a second on one
// core (BenchmarkDequantize) and allocates nothing.
package quant
