package model_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// families are the architectures that tests run through.
var families = []string{"llama", "qwen2", "qwen3", "gemma3", "phi3", "granite"}

// tiny is a random model: the file's keys and tensors, and the numbers that
// its weights stand for.
type tiny struct {
	arch                                string
	layers, hidden, heads, kvHeads, dim int
	ffn, vocab, context                 int
	base                                float64
	epsilon                             float32
	keys                                []gguf.KeyValue
	tensors                             []gguf.NewTensor
	weights                             map[string][]float64
	format                              quant.Type
	rng                                 *rand.Rand
	tied                                bool
	special
}

// special is what only some families have; the zero value is that of none.
type special struct {
	biases, otherBiases       bool
	headNorms, postNorms      bool
	fused, gelu               bool
	partly                    bool // RoPE turns a part of each head
	window                    int
	local                     []bool // layers with the window; nil: all
	localBase                 float64
	stretch, magnitude        float64
	factors                   bool // rope_freqs.weight
	original                  int  // context up to which the short factors hold; 0: there are none
	queryScale, embed         float64
	residual, logitsDividedBy float64
}

// newTiny draws a model. Matrices have the given format; tied models have no
// output.weight.
func newTiny(rng *rand.Rand, arch string, format quant.Type, tied bool) *tiny {
	m := &tiny{
		arch: arch, format: format, rng: rng, context: 64,
		layers: 1 + rng.IntN(4), kvHeads: 1 + rng.IntN(3), dim: 2 * (1 + rng.IntN(5)),
		vocab: 7 + rng.IntN(20), base: []float64{10000, 500, 1e6}[rng.IntN(3)], epsilon: 1e-5,
	}
	m.heads = m.kvHeads * (1 + rng.IntN(4))
	m.hidden, m.ffn = 32*(1+rng.IntN(2)), 32*(1+rng.IntN(3))
	if n := format.BlockSize(); n > 1 { // rows are whole blocks, those of attn_output too
		m.dim, m.hidden, m.ffn = 32, max(n, m.hidden), max(n, m.ffn)
		m.kvHeads, m.heads = max(1, n/64), max(1, n/64)*2
	}
	m.tied = tied
	return m.rebuild()
}

// rebuild draws keys and tensors again, after sizes were changed.
func (m *tiny) rebuild() *tiny {
	m.tensors, m.weights = nil, map[string][]float64{}
	m.drawSpecial()
	m.setKeys()
	m.matrix("token_embd.weight", m.vocab, m.hidden)
	m.vector("output_norm.weight", m.hidden, 1)
	if !m.tied {
		m.matrix("output.weight", m.vocab, m.hidden)
	}
	m.ropeTensors()
	for i := range m.layers {
		m.layer(fmt.Sprintf("blk.%d.", i))
	}
	return m
}

// drawSpecial draws what the family has, or may have.
func (m *tiny) drawSpecial() {
	coin := func() bool { return m.rng.IntN(2) == 0 }
	m.special = special{
		stretch: 1, magnitude: 1, embed: 1, residual: 1, logitsDividedBy: 1,
		queryScale: 1 / math.Sqrt(float64(m.dim)),
	}
	switch m.arch {
	case "llama":
		m.biases, m.otherBiases, m.factors = coin(), coin(), coin()
	case "qwen2":
		m.biases = true
	case "qwen3":
		m.headNorms = true
	case "gemma3":
		m.headNorms, m.postNorms, m.gelu = true, true, true
		m.embed, m.localBase = math.Sqrt(float64(m.hidden)), 700
		if m.window = m.rng.IntN(7); m.window > 0 {
			m.local = make([]bool, m.layers)
			for i := range m.local {
				m.local[i] = coin()
			}
		}
	case "phi3":
		m.fused, m.partly = true, coin()
		m.window = m.rng.IntN(7)
		if coin() {
			m.original, m.magnitude = 1+m.rng.IntN(20), 1.25
		}
	case "granite":
		m.queryScale, m.embed, m.residual, m.logitsDividedBy = 0.4, 2.5, 0.375, 3
		m.otherBiases, m.factors = coin(), coin()
	}
	if m.original == 0 && coin() {
		m.stretch = 4
	}
}

// ropeDim is the number of elements of a head that turn.
func (m *tiny) ropeDim() int {
	if m.partly {
		return 2 * ((m.dim/2*3 + 3) / 4)
	}
	return m.dim
}

func (m *tiny) setKeys() {
	p := m.arch + "."
	m.keys = []gguf.KeyValue{
		{Name: "general.architecture", Value: m.arch},
		{Name: p + "block_count", Value: uint32(m.layers)},
		{Name: p + "embedding_length", Value: uint32(m.hidden)},
		{Name: p + "feed_forward_length", Value: uint32(m.ffn)},
		{Name: p + "context_length", Value: uint32(m.context)},
		{Name: p + "attention.head_count", Value: uint32(m.heads)},
		{Name: p + "attention.head_count_kv", Value: uint32(m.kvHeads)},
		{Name: p + "attention.key_length", Value: uint32(m.dim)},
		{Name: p + "attention.value_length", Value: uint32(m.dim)},
		{Name: p + "attention.layer_norm_rms_epsilon", Value: m.epsilon},
		{Name: p + "rope.dimension_count", Value: uint32(m.ropeDim())},
		{Name: p + "rope.freq_base", Value: float32(m.base)},
	}
	if m.stretch != 1 {
		m.key(p+"rope.scaling.type", "linear")
		m.key(p+"rope.scaling.factor", float32(m.stretch))
	}
	if m.window > 0 || m.arch == "phi3" {
		m.key(p+"attention.sliding_window", uint32(m.window))
	}
	if m.local != nil {
		m.key(p+"attention.sliding_window_pattern", m.local)
		m.key(p+"rope.freq_base_swa", float32(m.localBase))
	}
	if m.original > 0 {
		m.key(p+"rope.scaling.attn_factor", float32(m.magnitude))
		m.key(p+"rope.scaling.original_context_length", uint32(m.original))
	}
	if m.arch == "granite" {
		m.key(p+"attention.scale", m.queryScale)
		m.key(p+"embedding_scale", m.embed)
		m.key(p+"residual_scale", m.residual)
		m.key(p+"logit_scale", m.logitsDividedBy)
	}
}

// ropeTensors draws factors from 1 to 5.
func (m *tiny) ropeTensors() {
	var names []string
	if m.factors {
		names = append(names, "rope_freqs.weight")
	}
	if m.original > 0 {
		names = append(names, "rope_factors_short.weight", "rope_factors_long.weight")
	}
	for _, name := range names {
		values := make([]float64, m.ropeDim()/2)
		for i := range values {
			values[i] = float64(float32(1 + 4*m.rng.Float64()))
		}
		m.addVector(name, values)
	}
}

func (m *tiny) layer(p string) {
	q, k := m.heads*m.dim, m.kvHeads*m.dim
	m.vector(p+"attn_norm.weight", m.hidden, 1)
	if m.fused {
		m.fuse(p+"attn_qkv.weight", m.hidden, []string{p + "attn_q.weight", p + "attn_k.weight", p + "attn_v.weight"}, []int{q, k, k})
		m.fuse(p+"ffn_up.weight", m.hidden, []string{p + "ffn_gate.weight", p + "ffn_up.weight"}, []int{m.ffn, m.ffn})
	} else {
		m.matrix(p+"attn_q.weight", q, m.hidden)
		m.matrix(p+"attn_k.weight", k, m.hidden)
		m.matrix(p+"attn_v.weight", k, m.hidden)
		m.matrix(p+"ffn_gate.weight", m.ffn, m.hidden)
		m.matrix(p+"ffn_up.weight", m.ffn, m.hidden)
	}
	m.matrix(p+"attn_output.weight", m.hidden, q)
	m.vector(p+"ffn_norm.weight", m.hidden, 1)
	m.matrix(p+"ffn_down.weight", m.hidden, m.ffn)
	if m.headNorms {
		m.vector(p+"attn_q_norm.weight", m.dim, 1)
		m.vector(p+"attn_k_norm.weight", m.dim, 1)
	}
	if m.postNorms {
		m.vector(p+"post_attention_norm.weight", m.hidden, 1)
		m.vector(p+"post_ffw_norm.weight", m.hidden, 1)
	}
	if m.biases {
		m.vector(p+"attn_q.bias", q, 0)
		m.vector(p+"attn_k.bias", k, 0)
		m.vector(p+"attn_v.bias", k, 0)
	}
	if m.otherBiases {
		m.vector(p+"attn_output.bias", m.hidden, 0)
		m.vector(p+"ffn_gate.bias", m.ffn, 0)
		m.vector(p+"ffn_up.bias", m.ffn, 0)
		m.vector(p+"ffn_down.bias", m.hidden, 0)
	}
}

// fuse writes one tensor whose rows are those of several matrices.
func (m *tiny) fuse(name string, columns int, parts []string, rows []int) {
	total := 0
	for _, n := range rows {
		total += n
	}
	m.matrix(name, total, columns)
	values := m.weights[name]
	delete(m.weights, name)
	for i, part := range parts {
		m.weights[part], values = values[:rows[i]*columns], values[rows[i]*columns:]
	}
}

// vector adds numbers around mean, stored as float32.
func (m *tiny) vector(name string, n int, mean float64) {
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(float32(mean + m.rng.NormFloat64()/3))
	}
	m.addVector(name, values)
}

func (m *tiny) addVector(name string, values []float64) {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
	}
	m.weights[name] = values
	m.tensors = append(m.tensors, gguf.NewTensor{Name: name, Type: quant.F32, Shape: []int{len(values)}, Data: data})
}

// matrix adds numbers of a size that keeps activations near 1.
func (m *tiny) matrix(name string, rows, columns int) {
	var data []byte
	var values []float64
	deviation := 1 / math.Sqrt(float64(columns))
	for len(values) < rows*columns {
		v := float32(m.rng.NormFloat64() * deviation)
		switch m.format {
		case quant.F32:
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
			values = append(values, float64(v))
		case quant.F16:
			h := quant.F32ToF16(v)
			data = binary.LittleEndian.AppendUint16(data, h)
			values = append(values, float64(quant.F16ToF32(h)))
		case quant.Q8_0: // one scale and 32 integers at a time
			scale := quant.F32ToF16(float32(deviation * (0.5 + m.rng.Float64()) / 64))
			data = binary.LittleEndian.AppendUint16(data, scale)
			for range 32 {
				q := int8(m.rng.IntN(255) - 127)
				data = append(data, byte(q))
				values = append(values, float64(quant.F16ToF32(scale))*float64(q))
			}
		}
	}
	m.weights[name] = values
	m.tensors = append(m.tensors, gguf.NewTensor{Name: name, Type: m.format, Shape: []int{columns, rows}, Data: data})
}

// key replaces or adds a key; nil removes it.
func (m *tiny) key(name string, value any) {
	var keys []gguf.KeyValue
	for _, k := range m.keys {
		if k.Name != name {
			keys = append(keys, k)
		}
	}
	if value != nil {
		keys = append(keys, gguf.KeyValue{Name: name, Value: value})
	}
	m.keys = keys
}

// tensor returns a tensor to be changed.
func (m *tiny) tensor(name string) *gguf.NewTensor {
	for i := range m.tensors {
		if m.tensors[i].Name == name {
			return &m.tensors[i]
		}
	}
	panic("no tensor " + name)
}

func (m *tiny) remove(name string) {
	var kept []gguf.NewTensor
	for _, t := range m.tensors {
		if t.Name != name {
			kept = append(kept, t)
		}
	}
	m.tensors = kept
}

// open writes the file and opens it.
func (m *tiny) open(t testing.TB) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, gguf.Write(file, m.keys, m.tensors))
	require.NoError(t, file.Close())
	return openFile(t, path)
}

func (m *tiny) load(t testing.TB) *model.Model {
	t.Helper()
	loaded, err := model.Load(m.open(t))
	require.NoError(t, err)
	return loaded
}

func openFile(t testing.TB, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}
