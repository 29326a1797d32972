package model

import "slices"

// llama is Meta's family and many that share its form: Mistral, SmolLM2,
// DeepSeek's distillations. Llama 3.1 and later divide the angles of RoPE by
// factors from a tensor. Biases are optional.
var llama = architecture{
	name:   "llama",
	rows:   pairs,
	global: slices.Concat(decoderGlobal, pairFactors),
	layer:  slices.Concat(attention, gatedFFN, optional(biases), optional(otherBiases)),
	gate:   (*writer).silu, fixedGate: (*writer).fixedSilu,
}
