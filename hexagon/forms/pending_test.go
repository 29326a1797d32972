package forms

import "regexp"

// pending are the forms, by name, that the emulator cannot do yet: their faults
// are counted, not reported. Whoever makes one work takes its line out.
var pending = regexp.MustCompile(`^(` +
	// the other operators: those that are missing, and the types that are
	`(LayerNorm|LayerNorm gamma u16|MaskedSoftmax|ElementWiseBinary \d+|Gelu|HardSwish|ElementWiseRsqrt|ReduceMean|ElementWiseSelect|Pad|ScatterNd|ScatterElements|Quantize|Dequantize|Convert)/|` +
	`(Cast|RmsNorm|RmsNorm rank 4|Softmax|Softmax [^/]*|ElementWise[A-Z][a-z]+|ElementWiseNeuron 6|Sigmoid|SiLU|Reshape|Transpose|StridedSlice|Tile|Concat|Split|Gather|Gather [^/]*|TopK|Argmax keep \w+|RotaryEmbedding|RotaryEmbedding [^/]*)/[^/]*(uint8|u8|u16|s8|s16)|` +
	`[A-Za-z]+, other encoding/|` +
	`block(, grouped scores)?/W|` +
	`RotaryEmbedding (rank 2|position ids)` +
	`)`)
