package model_test

import (
	"errors"
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

func TestLoadReadsTheHyperParameters(t *testing.T) {
	m := newTiny(rand.New(rand.NewPCG(1, 1)), "qwen2", quant.F32, false)
	want := model.Config{
		Architecture: "qwen2", Layers: m.layers, Hidden: m.hidden, Heads: m.heads, KVHeads: m.kvHeads, HeadDim: m.dim,
		FFN: m.ffn, Vocab: m.vocab, ContextLength: 64, NormEpsilon: 1e-5, RopeBase: m.base, RopeDim: m.dim,
		QueryScale: m.queryScale, EmbeddingScale: 1, ResidualScale: 1, LogitScale: 1, RopeScale: m.stretch, RopeMagnitude: 1,
	}
	require.Equal(t, want, m.load(t).Config())
	require.Regexp(t, "^[0-9a-f]{64}$", m.load(t).Digest())
}

func TestLoadFillsInWhatFilesMayLeaveOut(t *testing.T) {
	m := newTiny(rand.New(rand.NewPCG(1, 1)), "llama", quant.F32, true)
	m.heads, m.kvHeads, m.dim, m.hidden, m.base = 4, 4, 8, 32, 10000
	m = m.rebuild()
	want := m.load(t).Config()
	for _, k := range []string{"attention.head_count_kv", "attention.key_length", "attention.value_length", "rope.dimension_count", "rope.freq_base"} {
		m.key("llama."+k, nil)
	}
	require.Equal(t, want, m.load(t).Config())
}

func TestLoadAcceptsKeysThatSayAFeatureIsOff(t *testing.T) {
	m := newTiny(rand.New(rand.NewPCG(1, 1)), "llama", quant.F32, true)
	m.key("general.type", "model")
	m.key("llama.vocab_size", uint32(3)) // wrong in some files
	m.key("llama.rope.scaling.type", "none")
	m.key("llama.rope.scaling.factor", float32(1))
	m.key("llama.attention.sliding_window", uint32(0))
	m.key("llama.attention.causal", true)
	m.key("llama.expert_count", uint32(0))
	m.key("qwen2.rope.scaling.type", "yarn") // not this architecture's
	m.key("sdnpu.enabled", true)
	require.Equal(t, m.vocab, m.load(t).Config().Vocab)
}

func TestLoadRefusesWhatItCannotRun(t *testing.T) {
	key := func(name string, value any) func(m *tiny) { return func(m *tiny) { m.key("llama."+name, value) } }
	add := func(name string) func(m *tiny) { return func(m *tiny) { m.vector(name, 4, 1) } }
	reshape := func(name string, shape ...int) func(m *tiny) {
		return func(m *tiny) {
			size := 4
			for _, d := range shape {
				size *= d
			}
			tensor := m.tensor(name)
			tensor.Shape, tensor.Data = shape, make([]byte, size)
		}
	}
	unsupported, invalid := errors.ErrUnsupported, model.ErrInvalid
	for _, c := range []struct {
		name   string
		change func(m *tiny)
		is     error
		says   string
	}{
		{"another architecture", func(m *tiny) { m.key("general.architecture", "mamba") }, unsupported, `"mamba" is none of llama, qwen2, qwen3, gemma3, phi3, granite`},
		{"no architecture", func(m *tiny) { m.key("general.architecture", nil) }, unsupported, `""`},
		{"an adapter", func(m *tiny) { m.key("general.type", "adapter") }, unsupported, "adapter"},
		{"general.type of another type", func(m *tiny) { m.key("general.type", uint8(1)) }, invalid, "general.type"},
		{"rope scaling", key("rope.scaling.type", "yarn"), unsupported, "llama.rope.scaling.type"},
		{"rope scaling of another type", key("rope.scaling.type", uint32(0)), unsupported, "llama.rope.scaling.type"},
		{"linear rope scaling of another type", key("rope.scaling.factor", "4"), invalid, "llama.rope.scaling.factor"},
		{"negative rope scaling", key("rope.scaling.factor", float32(-4)), invalid, "llama.rope.scaling.factor"},
		{"rope factors of another length", func(m *tiny) {
			m.key("llama.rope.dimension_count", uint32(4))
			m.vector("rope_freqs.weight", 4, 1)
		}, invalid, "rope_freqs.weight has shape [4], [2] wanted"},
		{"rope factors of zero", func(m *tiny) {
			m.addVector("rope_freqs.weight", []float64{1, 2, 0, 4})
		}, invalid, "rope_freqs.weight: factor 2 is 0"},
		{"rope factors of NaN", func(m *tiny) {
			m.addVector("rope_freqs.weight", []float64{1, 2, 3, math.NaN()})
		}, invalid, "rope_freqs.weight"},
		{"factors of another family", add("rope_factors_long.weight"), unsupported, "rope_factors_long.weight"},
		{"sliding window", key("attention.sliding_window", uint32(4096)), unsupported, "sliding_window"},
		{"attention in both directions", key("attention.causal", false), unsupported, "causal"},
		{"experts", key("expert_count", uint32(8)), unsupported, "expert_count"},
		{"soft capping", key("attn_logit_softcapping", float32(50)), unsupported, "softcapping"},
		{"scaled residuals", key("residual_scale", float32(0.2)), unsupported, "residual_scale"},
		{"an unknown key", key("attention.something_new", uint32(1)), unsupported, "llama.attention.something_new"},
		{"values of another width", key("attention.value_length", uint32(16)), unsupported, "values 16 wide beside keys 8"},
		{"key heads per layer", key("attention.head_count_kv", []uint32{2, 2}), unsupported, "head_count_kv"},
		{"key heads that do not divide", key("attention.head_count_kv", uint32(3)), invalid, "3 key heads do not divide 4"},
		{"more key heads than heads", key("attention.head_count_kv", uint32(8)), invalid, "8 key heads"},
		{"heads that do not divide", func(m *tiny) {
			m.key("llama.attention.key_length", nil)
			m.key("llama.attention.head_count", uint32(5))
		}, invalid, "5 heads do not divide"},
		{"odd heads", func(m *tiny) {
			for _, k := range []string{"attention.key_length", "attention.value_length", "rope.dimension_count"} {
				m.key("llama."+k, uint32(7))
			}
		}, invalid, "elements of a head, 7 of 7"},
		{"rope beyond the head", key("rope.dimension_count", uint32(10)), invalid, "elements of a head, 10 of 8"},
		{"no layers", key("block_count", uint32(0)), invalid, "block_count"},
		{"missing width", key("embedding_length", nil), invalid, "embedding_length"},
		{"negative width", key("embedding_length", int32(-64)), unsupported, "embedding_length"},
		{"absurd width", key("feed_forward_length", uint64(math.MaxUint64)), invalid, "feed_forward_length"},
		{"absurd layers", key("block_count", uint32(1<<24)), invalid, "blk.2.attn_norm.weight"},
		{"missing epsilon", key("attention.layer_norm_rms_epsilon", nil), invalid, "epsilon"},
		{"epsilon is NaN", key("attention.layer_norm_rms_epsilon", float32(math.NaN())), invalid, "epsilon"},
		{"epsilon vanishes", key("attention.layer_norm_rms_epsilon", 1e-60), invalid, "epsilon"},
		{"epsilon overflows", key("attention.layer_norm_rms_epsilon", 1e60), invalid, "epsilon"},
		{"rope base is negative", key("rope.freq_base", float32(-1)), invalid, "rope.freq_base"},
		{"rope base is infinite", key("rope.freq_base", float32(math.Inf(1))), invalid, "rope.freq_base"},
		{"rope base is text", key("rope.freq_base", "10000"), invalid, "rope.freq_base"},
		{"no embedding", func(m *tiny) { m.remove("token_embd.weight") }, invalid, "token_embd.weight"},
		{"embedding is a vector", reshape("token_embd.weight", 32), invalid, "token_embd.weight"},
		{"missing tensor", func(m *tiny) { m.remove("blk.1.ffn_down.weight") }, invalid, "blk.1.ffn_down.weight"},
		{"transposed tensor", reshape("blk.1.ffn_down.weight", 32, 64), invalid, "blk.1.ffn_down.weight has shape [32 64], [64 32] wanted"},
		{"norm is a matrix", reshape("blk.0.attn_norm.weight", 32, 1), invalid, "blk.0.attn_norm.weight"},
		{"output of another vocabulary", reshape("output.weight", 32, 5), invalid, "output.weight"},
		{"layers beyond the count", key("block_count", uint32(1)), unsupported, "blk.1."},
		{"normalised queries", add("blk.0.attn_q_norm.weight"), unsupported, "blk.0.attn_q_norm.weight"},
		{"a format that is not decoded", func(m *tiny) {
			*m.tensor("blk.0.ffn_up.weight") = gguf.NewTensor{
				Name: "blk.0.ffn_up.weight", Type: quant.Type(9), Shape: []int{32, 64}, Data: make([]byte, 64*36),
			}
		}, unsupported, "blk.0.ffn_up.weight has type Q8_1"},
		{"a vector in blocks", func(m *tiny) {
			*m.tensor("output_norm.weight") = gguf.NewTensor{
				Name: "output_norm.weight", Type: quant.Q8_0, Shape: []int{32}, Data: make([]byte, 34),
			}
		}, unsupported, "output_norm.weight has type Q8_0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newTiny(rand.New(rand.NewPCG(2, 2)), "llama", quant.F32, false)
			m.layers, m.heads, m.kvHeads, m.dim, m.hidden, m.ffn, m.vocab = 2, 4, 2, 8, 32, 64, 11
			for m.rebuild(); m.factors; { // they are of one case
				m.rebuild()
			}
			m.load(t) // right before the change
			c.change(m)
			_, err := model.Load(m.open(t))
			require.ErrorIs(t, err, c.is)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestLoadRefusesQwenWithoutItsBiases(t *testing.T) {
	m := newTiny(rand.New(rand.NewPCG(2, 2)), "qwen2", quant.F32, false)
	m.remove("blk.0.attn_v.bias")
	_, err := model.Load(m.open(t))
	require.ErrorIs(t, err, model.ErrInvalid)
	require.ErrorContains(t, err, "blk.0.attn_v.bias")
}

// FuzzLoad changes bytes of a right file: whatever opens is refused or gives
// graphs that are valid.
func FuzzLoad(f *testing.F) {
	m := newTiny(rand.New(rand.NewPCG(3, 3)), "llama", quant.F16, false)
	m.layers, m.ffn, m.hidden = 1, 32, 32
	right, err := os.ReadFile(m.rebuild().open(f).Path())
	require.NoError(f, err)
	f.Add(uint16(0), byte(0), uint16(0), byte(0))
	f.Add(uint16(60), byte(1), uint16(300), byte(255))
	f.Fuzz(func(t *testing.T, at uint16, value byte, at2 uint16, value2 byte) {
		data := append([]byte(nil), right...)
		data[int(at)%len(data)] ^= value
		data[int(at2)%len(data)] ^= value2
		path := filepath.Join(t.TempDir(), "fuzz.gguf")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		file, err := gguf.Open(path)
		if err != nil {
			return
		}
		defer file.Close()
		loaded, err := model.Load(file)
		if err != nil {
			return
		}
		g, err := loaded.Block(model.Block{Name: "b", End: loaded.Config().Layers, Rows: 3, Context: 5, Recipe: model.Recipes[0]})
		require.NoError(t, err)
		require.NoError(t, g.Validate())
		for _, tensor := range g.Tensors {
			if tensor.Values.Fill != nil {
				_ = tensor.Values.Fill(make([]byte, tensor.SizeBytes())) // may find numbers that are not finite
			}
		}
	})
}
