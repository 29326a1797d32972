package model

import "slices"

// granite is IBM's Granite 3: a llama with four multipliers. The factors of embeddings, residuals
// and logits go into weights. The multiplier of the scores replaces 1/√HeadDim.
var granite = architecture{
	name:   "granite",
	rows:   pairs,
	global: slices.Concat(decoderGlobal, pairFactors),
	layer:  slices.Concat(attention, gatedFFN, optional(biases), optional(otherBiases)),
	keys: map[string]neutral{
		"attention.scale": anything,
		"embedding_scale": anything,
		"residual_scale":  anything,
		"logit_scale":     anything,
		// In this family the value false disables the rotation.
		"rope.scaling.finetuned": truth(true),
	},
	configure: func(r *keyReader, c *Config) {
		c.QueryScale = r.number("attention.scale", c.QueryScale)
		c.EmbeddingScale = r.number("embedding_scale", 1)
		c.ResidualScale = r.number("residual_scale", 1)
		c.LogitScale = 1 / r.number("logit_scale", 1) // files hold the divisor
	},
	gate: (*writer).silu, fixedGate: (*writer).fixedSilu,
}
