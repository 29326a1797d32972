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

// tiny is a random model: the file's keys and tensors, and the numbers that
// its weights stand for.
type tiny struct {
	arch                                string
	layers, hidden, heads, kvHeads, dim int
	ffn, vocab                          int
	base                                float64
	epsilon                             float32
	keys                                []gguf.KeyValue
	tensors                             []gguf.NewTensor
	weights                             map[string][]float64
	format                              quant.Type
	rng                                 *rand.Rand
	tied                                bool
}

// newTiny draws a model. Matrices have the given format; tied models have no
// output.weight.
func newTiny(rng *rand.Rand, arch string, format quant.Type, tied bool) *tiny {
	m := &tiny{
		arch: arch, format: format, rng: rng,
		layers: 1 + rng.IntN(4), kvHeads: 1 + rng.IntN(3), dim: 2 * (1 + rng.IntN(5)),
		vocab: 7 + rng.IntN(20), base: []float64{10000, 500, 1e6}[rng.IntN(3)], epsilon: 1e-5,
	}
	m.heads = m.kvHeads * (1 + rng.IntN(4))
	m.hidden, m.ffn = 32*(1+rng.IntN(2)), 32*(1+rng.IntN(3))
	if format == quant.Q8_0 { // rows are whole blocks, those of attn_output too
		m.dim = 32
	}
	m.tied = tied
	return m.rebuild()
}

// rebuild draws keys and tensors again, after sizes were changed.
func (m *tiny) rebuild() *tiny {
	m.tensors, m.weights = nil, map[string][]float64{}
	m.setKeys()
	m.matrix("token_embd.weight", m.vocab, m.hidden)
	m.vector("output_norm.weight", m.hidden, 1)
	if !m.tied {
		m.matrix("output.weight", m.vocab, m.hidden)
	}
	for i := range m.layers {
		m.layer(fmt.Sprintf("blk.%d.", i))
	}
	return m
}

func (m *tiny) setKeys() {
	p := m.arch + "."
	m.keys = []gguf.KeyValue{
		{Name: "general.architecture", Value: m.arch},
		{Name: p + "block_count", Value: uint32(m.layers)},
		{Name: p + "embedding_length", Value: uint32(m.hidden)},
		{Name: p + "feed_forward_length", Value: uint32(m.ffn)},
		{Name: p + "context_length", Value: uint32(64)},
		{Name: p + "attention.head_count", Value: uint32(m.heads)},
		{Name: p + "attention.head_count_kv", Value: uint32(m.kvHeads)},
		{Name: p + "attention.key_length", Value: uint32(m.dim)},
		{Name: p + "attention.value_length", Value: uint32(m.dim)},
		{Name: p + "attention.layer_norm_rms_epsilon", Value: m.epsilon},
		{Name: p + "rope.dimension_count", Value: uint32(m.dim)},
		{Name: p + "rope.freq_base", Value: float32(m.base)},
	}
}

func (m *tiny) layer(p string) {
	q, k := m.heads*m.dim, m.kvHeads*m.dim
	m.vector(p+"attn_norm.weight", m.hidden, 1)
	m.matrix(p+"attn_q.weight", q, m.hidden)
	m.matrix(p+"attn_k.weight", k, m.hidden)
	m.matrix(p+"attn_v.weight", k, m.hidden)
	m.matrix(p+"attn_output.weight", m.hidden, q)
	m.vector(p+"ffn_norm.weight", m.hidden, 1)
	m.matrix(p+"ffn_gate.weight", m.ffn, m.hidden)
	m.matrix(p+"ffn_up.weight", m.ffn, m.hidden)
	m.matrix(p+"ffn_down.weight", m.hidden, m.ffn)
	if m.arch == "qwen2" {
		m.vector(p+"attn_q.bias", q, 0)
		m.vector(p+"attn_k.bias", k, 0)
		m.vector(p+"attn_v.bias", k, 0)
	}
}

// vector adds numbers around mean, stored as float32.
func (m *tiny) vector(name string, n int, mean float64) {
	data := make([]byte, 0, 4*n)
	for range n {
		v := float32(mean + m.rng.NormFloat64()/3)
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		m.weights[name] = append(m.weights[name], float64(v))
	}
	m.tensors = append(m.tensors, gguf.NewTensor{Name: name, Type: quant.F32, Shape: []int{n}, Data: data})
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
