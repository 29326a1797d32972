// Package quant knows the numeric formats of GGUF tensors: their names and
// sizes, and how to turn the plain ones and the 32-wide block ones into
// float32. It also converts between float32 and float16.
//
// It does not quantise, and it does not decode the K- and I-formats; asking
// for those is [errors.ErrUnsupported] with the format's name.
//
// # Formats
//
// A block format stores 32 consecutive values of a row together, scale first
// (ggml-common.h, github.com/ggml-org/ggml, states the layouts; d and m are
// float16, all integers little-endian):
//
//	Q8_0  d, 32 × int8        value = d·q
//	Q4_0  d, 16 bytes         value = d·(q−8)
//	Q4_1  d, m, 16 bytes      value = d·q + m
//
// Byte i of a 4-bit block holds value i in its low and value i+16 in its high
// half.
//
// # Invariants
//
//   - every product is exact in float32 (11 significant bits times at most 8),
//     so the result is the same on every machine, fused multiply-add or not;
//   - float32 to float16 rounds to nearest, ties to even; what overflows is
//     infinite, and a NaN stays a NaN;
//   - a length that does not fit is an error before anything is written.
//
// Dequantising writes 2 (F16) to 5 (blocks) GB of float32 a second on one core
// (BenchmarkDequantize) and allocates nothing.
package quant
