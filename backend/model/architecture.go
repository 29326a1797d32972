package model

import "github.com/sdnpu/sdnpu/backend"

// An architecture is what distinguishes one family of models from another, as
// data: each has a file of its own and is found by general.architecture.
type architecture struct {
	name string
	// rows is the order in which files hold the rows that RoPE rotates.
	rows rowOrder
	// global tensors exist once, layer tensors once per layer; the pattern of
	// the latter takes the layer's number. Of several rules for one role the
	// first whose tensor is there counts.
	global, layer []tensorRule
	// foreign tensors, by the beginning of their names, belong to parts of a
	// file that text does not need.
	foreign []string
	// keys are the hyper-parameters that may stand in a file beside, or with
	// other values than, those of [commonKeys].
	keys map[string]neutral
	// configure, when set, reads those keys into a Config that holds the common
	// ones.
	configure func(r *keyReader, c *Config)
	// epsilon is that of the norms where a file may leave it out.
	epsilon float64
	// gate makes an activation of the gate's projection; its result has the
	// prefix p in front of its name.
	gate func(w *writer, p string, gate backend.TensorID) backend.TensorID
	// fixedGate is gate of 16-bit integers, nil for families without one.
	fixedGate func(w *writer, p string, gate backend.TensorID) backend.TensorID
}

// architectures is the table; a family is added by its file and its line here.
var architectures = []architecture{llama, qwen2, qwen3, gemma3, phi3, granite}

// rowOrder says which two elements of a head RoPE turns together.
type rowOrder uint8

const (
	// halves: j and j+R/2 of the R elements that turn. The order of all our
	// graphs.
	halves rowOrder = iota
	// pairs: 2j and 2j+1.
	pairs
)

// role is what a tensor does in the model, whatever its name.
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

// A tensorRule says which tensor plays a role and what shape it must have.
type tensorRule struct {
	role    role
	pattern string
	// rows and columns of a matrix; a vector has rows only.
	rows, columns func(Config) int
	// first and total, when set, say that rows are a part of the tensor's: the
	// tensor has several roles, and a rule for each.
	first, total func(Config) int
	// scale, when set, is what the values are multiplied by: factors that a
	// family applies to activations cost nothing in the weights before them.
	scale func(Config) float64
	// rotated rows are subject to the architecture's rowOrder.
	rotated bool
	// optional tensors may be missing.
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

// valueRow and qkvWidth describe Q, K and V in one tensor.
func valueRow(c Config) int { return queryWidth(c) + keyWidth(c) }
func qkvWidth(c Config) int { return queryWidth(c) + 2*keyWidth(c) }

func residual(c Config) float64     { return c.ResidualScale }
func beforeLogits(c Config) float64 { return c.LogitScale }

// tokenTable is the embedding's tensor in every family.
const tokenTable = "token_embd.weight"

// decoderGlobal, attention and gatedFFN are the tensors of a pre-normalised
// decoder with grouped attention and a gated feed-forward network. Without
// output the head uses the embedding's table.
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
	// biases of Q, K and V.
	biases = []tensorRule{
		{role: queryBias, pattern: "blk.%d.attn_q.bias", rows: queryWidth, rotated: true},
		{role: keyBias, pattern: "blk.%d.attn_k.bias", rows: keyWidth, rotated: true},
		{role: valueBias, pattern: "blk.%d.attn_v.bias", rows: keyWidth},
	}
	// otherBiases are those of the remaining projections.
	otherBiases = []tensorRule{
		{role: attentionOutBias, pattern: "blk.%d.attn_output.bias", rows: hidden, scale: residual},
		{role: ffnGateBias, pattern: "blk.%d.ffn_gate.bias", rows: feedForward},
		{role: ffnUpBias, pattern: "blk.%d.ffn_up.bias", rows: feedForward},
		{role: ffnDownBias, pattern: "blk.%d.ffn_down.bias", rows: hidden, scale: residual},
	}
	// headNorms normalise every head of Q and K before it turns.
	headNorms = []tensorRule{
		{role: queryNorm, pattern: "blk.%d.attn_q_norm.weight", rows: headWidth},
		{role: keyNorm, pattern: "blk.%d.attn_k_norm.weight", rows: headWidth},
	}
	// pairFactors divide the angle of each pair, as Llama 3.1 does.
	pairFactors = []tensorRule{
		{role: ropeFactors, pattern: "rope_freqs.weight", rows: angles, optional: true},
	}
)

// fusedQKV holds the rows of Q, K and V, in this order.
const fusedQKV = "blk.%d.attn_qkv.weight"

// optional makes the tensors of rules such that may be missing.
func optional(rules []tensorRule) []tensorRule {
	rules = append([]tensorRule(nil), rules...)
	for i := range rules {
		rules[i].optional = true
	}
	return rules
}
