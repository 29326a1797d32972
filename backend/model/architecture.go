package model

import "github.com/sdnpu/sdnpu/backend"

// architecture describes one family of models as data. Each family has a file
// of its own and is selected by the key general.architecture.
type architecture struct {
	name string
	// rows is the order of the rotated rows in files.
	rows rowOrder
	// global tensors exist once, layer tensors once per layer; the latter's
	// patterns take the layer's number. If several rules have one role, the
	// first one whose tensor exists counts.
	global, layer []tensorRule
	// foreign lists name prefixes of tensors that text generation does not
	// need.
	foreign []string
	// keys lists the hyper-parameters that a file may hold in addition to
	// [commonKeys], or with other values.
	keys map[string]neutral
	// configure, if set, reads those keys into a Config that already holds the
	// common ones.
	configure func(r *keyReader, c *Config)
	// epsilon is the default epsilon of the norms, or 0 if a file must have it.
	epsilon float64
	// gate writes the activation of the gate's projection. The names of its tensors start with p.
	gate func(w *writer, p string, gate backend.TensorID) backend.TensorID
	// fixedGate is gate for 16-bit integers, or nil if the family has none.
	fixedGate func(w *writer, p string, gate backend.TensorID) backend.TensorID
}

// architectures lists all families. Add a new one here.
var architectures = []architecture{llama, qwen2, qwen3, gemma3, phi3, granite}

// rowOrder selects the pairs of elements of an attention head that RoPE rotates together.
type rowOrder uint8

const (
	// halves: j and j+R/2 of the R rotated elements. All our graphs have this
	// order.
	halves rowOrder = iota
	// pairs: 2j and 2j+1.
	pairs
)

// role is the function of a tensor in the model, independent of its name.
type role uint8

const (
	embedding role = iota
	finalNorm
	output
	ropeFactors
	ropeShort
	ropeLong
	attentionNorm
	query
	key
	value
	queryBias
	keyBias
	valueBias
	queryNorm
	keyNorm
	attentionOut
	attentionOutBias
	attentionPostNorm
	ffnNorm
	ffnGate
	ffnUp
	ffnDown
	ffnGateBias
	ffnUpBias
	ffnDownBias
	ffnPostNorm
	roles // their number
)

// tensorRule names the tensor of a role and its shape.
type tensorRule struct {
	role    role
	pattern string
	// rows and columns are the dimensions of a matrix. A vector has rows only.
	rows, columns func(Config) int
	// first and total, if set, select rows of a tensor that has several roles,
	// with one rule for each.
	first, total func(Config) int
	// scale, if set, is a factor of the values. Factors that a family applies
	// to activations cost nothing in the weights before them.
	scale func(Config) float64
	// rotated reports that the architecture's rowOrder applies to the rows.
	rotated bool
	// optional reports that the tensor may be missing.
	optional bool
}

func hidden(c Config) int      { return c.Hidden }
func vocabulary(c Config) int  { return c.Vocab }
func headWidth(c Config) int   { return c.HeadDim }
func queryWidth(c Config) int  { return c.Heads * c.HeadDim }
func keyWidth(c Config) int    { return c.KVHeads * c.HeadDim }
func feedForward(c Config) int { return c.FFN }
func angles(c Config) int      { return c.RopeDim / 2 }
func none(Config) int          { return 0 }

// valueRow and qkvWidth describe a tensor that holds Q, K and V.
func valueRow(c Config) int { return queryWidth(c) + keyWidth(c) }
func qkvWidth(c Config) int { return queryWidth(c) + 2*keyWidth(c) }

func residual(c Config) float64     { return c.ResidualScale }
func beforeLogits(c Config) float64 { return c.LogitScale }

// tokenTable is the name of the embedding table in every family.
const tokenTable = "token_embd.weight"

// decoderGlobal, attention and gatedFFN are the tensors of a pre-normalised
// decoder with grouped attention and a gated feed-forward network. Without the
// output tensor, the head uses the embedding table.
var (
	decoderGlobal = []tensorRule{
		{role: embedding, pattern: tokenTable, rows: vocabulary, columns: hidden},
		{role: finalNorm, pattern: "output_norm.weight", rows: hidden, scale: beforeLogits},
		{role: output, pattern: "output.weight", rows: vocabulary, columns: hidden, optional: true},
	}
	attention = []tensorRule{
		{role: attentionNorm, pattern: "blk.%d.attn_norm.weight", rows: hidden},
		{role: query, pattern: "blk.%d.attn_q.weight", rows: queryWidth, columns: hidden, rotated: true},
		{role: key, pattern: "blk.%d.attn_k.weight", rows: keyWidth, columns: hidden, rotated: true},
		{role: value, pattern: "blk.%d.attn_v.weight", rows: keyWidth, columns: hidden},
		{role: query, pattern: fusedQKV, rows: queryWidth, columns: hidden, first: none, total: qkvWidth, rotated: true},
		{role: key, pattern: fusedQKV, rows: keyWidth, columns: hidden, first: queryWidth, total: qkvWidth, rotated: true},
		{role: value, pattern: fusedQKV, rows: keyWidth, columns: hidden, first: valueRow, total: qkvWidth},
		{role: attentionOut, pattern: "blk.%d.attn_output.weight", rows: hidden, columns: queryWidth, scale: residual},
	}
	gatedFFN = []tensorRule{
		{role: ffnNorm, pattern: "blk.%d.ffn_norm.weight", rows: hidden},
		{role: ffnGate, pattern: "blk.%d.ffn_gate.weight", rows: feedForward, columns: hidden},
		{role: ffnUp, pattern: "blk.%d.ffn_up.weight", rows: feedForward, columns: hidden},
		{role: ffnDown, pattern: "blk.%d.ffn_down.weight", rows: hidden, columns: feedForward, scale: residual},
	}
	// biases lists the biases of Q, K and V.
	biases = []tensorRule{
		{role: queryBias, pattern: "blk.%d.attn_q.bias", rows: queryWidth, rotated: true},
		{role: keyBias, pattern: "blk.%d.attn_k.bias", rows: keyWidth, rotated: true},
		{role: valueBias, pattern: "blk.%d.attn_v.bias", rows: keyWidth},
	}
	// otherBiases lists the biases of the remaining projections.
	otherBiases = []tensorRule{
		{role: attentionOutBias, pattern: "blk.%d.attn_output.bias", rows: hidden, scale: residual},
		{role: ffnGateBias, pattern: "blk.%d.ffn_gate.bias", rows: feedForward},
		{role: ffnUpBias, pattern: "blk.%d.ffn_up.bias", rows: feedForward},
		{role: ffnDownBias, pattern: "blk.%d.ffn_down.bias", rows: hidden, scale: residual},
	}
	// headNorms normalise each head of Q and K before its rotation.
	headNorms = []tensorRule{
		{role: queryNorm, pattern: "blk.%d.attn_q_norm.weight", rows: headWidth},
		{role: keyNorm, pattern: "blk.%d.attn_k_norm.weight", rows: headWidth},
	}
	// pairFactors divide the angle of each pair, as Llama 3.1 does.
	pairFactors = []tensorRule{
		{role: ropeFactors, pattern: "rope_freqs.weight", rows: angles, optional: true},
	}
)

// fusedQKV holds the rows of Q, K and V in this order.
const fusedQKV = "blk.%d.attn_qkv.weight"

// optional returns rules whose tensors may be missing.
func optional(rules []tensorRule) []tensorRule {
	rules = append([]tensorRule(nil), rules...)
	for i := range rules {
		rules[i].optional = true
	}
	return rules
}
