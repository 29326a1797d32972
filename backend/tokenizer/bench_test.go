package tokenizer_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// vocabularies lists the measured vocabularies: two in this repository and larger
// ones of the shared data.
var vocabularies = []string{"stories", "unigram", "llama-spm", "gpt-2", "qwen2", "llama-bpe"}

func vocabularyPath(t testing.TB, name string) string {
	t.Helper()
	if name == "stories" {
		return models + "/stories260K-f16.gguf"
	}
	if name == "unigram" {
		return "testdata/unigram.gguf"
	}
	return data(t, "tokenizers/ggml-vocab-"+name+".gguf")
}

// BenchmarkEncode encodes a chat of about 8000 tokens with special tokens.
func BenchmarkEncode(b *testing.B) {
	turn := "<|im_start|>user\nThe quick brown fox, jumps over 13 lazy dogs: don't wait, été 你好!\n<|im_end|>\n"
	for _, name := range vocabularies {
		b.Run(name, func(b *testing.B) {
			tok := load(b, vocabularyPath(b, name))
			text := strings.Repeat(turn, 220)
			opts := tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true}
			ids, err := tok.Encode(text, opts)
			require.NoError(b, err)
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = tok.Encode(text, opts)
			}
			b.ReportMetric(float64(len(ids)), "tokens")
		})
	}
}

// BenchmarkHostile encodes a mebibyte that is one word.
func BenchmarkHostile(b *testing.B) {
	for _, name := range vocabularies {
		b.Run(name, func(b *testing.B) {
			tok := load(b, vocabularyPath(b, name))
			text := strings.Repeat("a", 1<<20)
			for b.Loop() {
				_, _ = tok.Encode(text, tokenizer.EncodeOptions{})
			}
		})
	}
}

// BenchmarkNew builds a tokenizer from an open file.
func BenchmarkNew(b *testing.B) {
	for _, name := range vocabularies {
		b.Run(name, func(b *testing.B) {
			f, err := gguf.Open(vocabularyPath(b, name))
			require.NoError(b, err)
			defer f.Close()
			for b.Loop() {
				_, err := tokenizer.New(f)
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkHuge opens and builds a SentencePiece vocabulary of Gemma 3's size
// and shape: 262144 tokens of 6 letters on average.
func BenchmarkHuge(b *testing.B) {
	const n = 262144
	texts, types, scores := make([]string, n), make([]int32, n), make([]float32, n)
	for id := range texts {
		texts[id], types[id], scores[id] = "▁"+strconv.FormatInt(int64(id)*7919, 36), 1, -float32(id)
	}
	for id, text := range []string{"<pad>", "<eos>", "<bos>", "<unk>", "<end_of_turn>"} {
		texts[id], types[id] = text, 3
	}
	path := filepath.Join(b.TempDir(), "huge.gguf")
	w, err := os.Create(path)
	require.NoError(b, err)
	require.NoError(b, gguf.Write(w, []gguf.KeyValue{
		{Name: "tokenizer.ggml.model", Value: "llama"},
		{Name: "tokenizer.ggml.tokens", Value: texts},
		{Name: "tokenizer.ggml.token_type", Value: types},
		{Name: "tokenizer.ggml.scores", Value: scores},
		{Name: "tokenizer.ggml.add_space_prefix", Value: false},
	}, nil))
	require.NoError(b, w.Close())
	b.ReportAllocs()
	for b.Loop() {
		_ = load(b, path)
	}
}
