package model

import "slices"

// qwen3 is the dense part of Qwen 3. It has no biases, normalises each head of
// Q and K before its rotation, and its heads together need not have the hidden
// width.
var qwen3 = architecture{
	name:   "qwen3",
	rows:   halves,
	global: decoderGlobal,
	layer:  slices.Concat(attention, headNorms, gatedFFN),
	gate:   (*writer).silu, fixedGate: (*writer).fixedSilu,
}
