package model

import "slices"

// qwen3 is the dense part of Qwen 3: no biases, every head of Q and K is
// normalised before it turns, and heads × their width need not be the hidden
// width.
var qwen3 = architecture{
	name:   "qwen3",
	rows:   halves,
	global: decoderGlobal,
	layer:  slices.Concat(attention, headNorms, gatedFFN),
	gate:   (*writer).silu, fixedGate: (*writer).fixedSilu,
}
