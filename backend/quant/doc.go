// Package quant has the numeric formats of GGUF tensors: their names and sizes, and the
// conversion to and from float32. It also converts 16-bit floats, finds values that are
// not finite, and rounds weights for the recipes of package model.
//
// It reads F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS and
// MXFP4. For another format, the error wraps [errors.ErrUnsupported] and names it.
// Package quanttest writes these formats, for tests.
//
// # Adding a format
//
// A new format needs its exported constant and its row in formats (type.go), a decoder in
// the table of dequantize.go, and recorded vectors in testdata (vectors.py). Package model
// then reads it for every architecture. Tests need an encoder (package quanttest), too.
//
// The precision of graphs is no format of this package: it is a Recipe of
// backend/model/recipe.go.
//
// # Formats
//
// A block format stores consecutive values of a row together with their scale
// (ggml-common.h, github.com/ggml-org/ggml, has the layouts; d and m are float16, all
// integers are little-endian). Blocks of 32:
//
//	Q8_0    d, 32 × int8               value = d·q
//	Q4_0    d, 16 bytes                value = d·(q−8)
//	Q4_1    d, m, 16 bytes             value = d·q + m
//	Q5_0    d, 32 bits, 16 bytes       value = d·(q−16)
//	Q5_1    d, m, 32 bits, 16 bytes    value = d·q + m
//	IQ4_NL  d, 16 bytes                value = d·level[q]
//	MXFP4   exponent byte, 16 bytes    value = 2^(e−128)·level[q]
//
// Byte i of a 4-bit block holds value i in its low and value i+16 in its high half. Bit i
// of the 32 is the fifth bit of value i. Blocks of 256 have a small integer scale s (and
// minimum t) for each 16 or 32 values, packed as superblock.go describes:
//
//	Q2_K, Q4_K, Q5_K    value = d·s·q − dmin·t
//	Q3_K, Q6_K          value = d·s·q, q signed
//	IQ4_XS              value = d·s·level[q]
//
// # Invariants
//
//   - Every product is exact in float32 (a scale of 11 bits, an integer scale of up to 7
//     and a code of up to 7). So the result has the same bits on every machine, with or
//     without fused multiply-add, and equals ggml's.
//   - Rounding to a 16-bit float is to nearest, ties to even. Overflow gives infinity,
//     and a NaN stays a NaN.
//   - A wrong length is an error before anything is written.
//
// # Cost
//
// Dequantising writes 1 (Q6_K, Q3_K) to 5 (Q4_0) GB of float32 per second on one core
// (BenchmarkDequantize) and allocates nothing.
package quant
