package model

// An architecture is what distinguishes one family of models from another: a
// row of a table, found by the file's general.architecture.
type architecture struct {
	name string
	// rows is the order in which files hold the rows that RoPE rotates.
	rows rowOrder
	// global tensors exist once, layer tensors once per layer; the pattern of
	// the latter takes the layer's number.
	global, layer []tensorRule
}

// rowOrder says which two elements of a head RoPE turns together.
type rowOrder uint8

const (
	// halves: j and j+D/2. The order of all our graphs.
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
	attentionNorm
	query
	key
	value
	queryBias
	keyBias
	valueBias
	attentionOut
	ffnNorm
	ffnGate
	ffnUp
	ffnDown
	roles // their number
)

// A tensorRule says which tensor plays a role and what shape it must have.
type tensorRule struct {
	role    role
	pattern string
	// rows and columns of a matrix; a vector has rows only.
	rows, columns func(Config) int
	// rotated rows are subject to the architecture's rowOrder.
	rotated bool
	// optional tensors may be missing.
	optional bool
}

func hidden(c Config) int      { return c.Hidden }
func vocabulary(c Config) int  { return c.Vocab }
func queryWidth(c Config) int  { return c.Heads * c.HeadDim }
func keyWidth(c Config) int    { return c.KVHeads * c.HeadDim }
func feedForward(c Config) int { return c.FFN }

// tokenTable is the embedding's tensor in every family.
const tokenTable = "token_embd.weight"

// decoderGlobal and decoderLayer are the tensors of a pre-normalised decoder
// with grouped attention and a gated feed-forward network. Without output the
// head uses the embedding's table.
var (
	decoderGlobal = []tensorRule{
		{role: embedding, pattern: tokenTable, rows: vocabulary, columns: hidden},
		{role: finalNorm, pattern: "output_norm.weight", rows: hidden},
		{role: output, pattern: "output.weight", rows: vocabulary, columns: hidden, optional: true},
	}
	decoderLayer = []tensorRule{
		{role: attentionNorm, pattern: "blk.%d.attn_norm.weight", rows: hidden},
		{role: query, pattern: "blk.%d.attn_q.weight", rows: queryWidth, columns: hidden, rotated: true},
		{role: key, pattern: "blk.%d.attn_k.weight", rows: keyWidth, columns: hidden, rotated: true},
		{role: value, pattern: "blk.%d.attn_v.weight", rows: keyWidth, columns: hidden},
		{role: attentionOut, pattern: "blk.%d.attn_output.weight", rows: hidden, columns: queryWidth},
		{role: ffnNorm, pattern: "blk.%d.ffn_norm.weight", rows: hidden},
		{role: ffnGate, pattern: "blk.%d.ffn_gate.weight", rows: feedForward, columns: hidden},
		{role: ffnUp, pattern: "blk.%d.ffn_up.weight", rows: feedForward, columns: hidden},
		{role: ffnDown, pattern: "blk.%d.ffn_down.weight", rows: hidden, columns: feedForward},
	}
	// biases follow Q, K and V in some families.
	biases = []tensorRule{
		{role: queryBias, pattern: "blk.%d.attn_q.bias", rows: queryWidth, rotated: true},
		{role: keyBias, pattern: "blk.%d.attn_k.bias", rows: keyWidth, rotated: true},
		{role: valueBias, pattern: "blk.%d.attn_v.bias", rows: keyWidth},
	}
)

// architectures is the table.
var architectures = []architecture{
	{"llama", pairs, decoderGlobal, decoderLayer},
	{"qwen2", halves, decoderGlobal, append(biases, decoderLayer...)},
}
