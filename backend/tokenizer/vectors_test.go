package tokenizer_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/internal/needs"
	"github.com/sdnpu/sdnpu/internal/recorded"
)

const models = "../../integration_test/models"

// load returns the tokenizer of a model file.
func load(t testing.TB, path string) *tokenizer.Tokenizer {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	tok, err := tokenizer.New(f)
	require.NoError(t, err)
	return tok
}

func stories(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	return load(t, filepath.Join(models, "stories260K-f16.gguf"))
}

// data returns a path in the folder of shared test data, or skips the test if the path is
// missing.
func data(t testing.TB, path string) string {
	t.Helper()
	root := os.Getenv("SDNPU_DATA")
	full := filepath.Join(root, path)
	if _, err := os.Stat(full); root == "" || err != nil {
		why := "needs " + path + " of the shared test data; SDNPU_DATA names no folder that has it"
		needs.Missing(t, "data", "%s", why)
	}
	return full
}

func TestStoriesAgreeWithLlamaCpp(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(models, "tokenizer_vectors.json"))
	require.NoError(t, err)
	var vectors []struct {
		Text     string
		IDs      []int32
		LlamaCpp []int32 `json:"llama_cpp_ids"`
	}
	require.NoError(t, json.Unmarshal(raw, &vectors))
	require.NotEmpty(t, vectors)
	tok := stories(t)
	for _, v := range vectors {
		want := v.IDs
		if v.LlamaCpp != nil {
			want = v.LlamaCpp
		}
		got, err := tok.Encode(v.Text, tokenizer.EncodeOptions{})
		require.NoError(t, err)
		require.Equal(t, want, got, "%q", v.Text)
	}
}

func TestRecordedPromptsEncodeAlike(t *testing.T) {
	tok := stories(t)
	compared := 0
	for name, texts := range recorded.All(t) {
		for _, g := range texts {
			got, err := tok.Encode(g.Prompt, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
			require.NoError(t, err)
			require.Equal(t, g.PromptIDs, got, "%s %q", name, g.Prompt)
			require.Equal(t, g.Whole, strings.TrimPrefix(g.Prompt+tok.Decode(g.GreedyIDs), " "), "%s %q", name, g.Prompt)
			compared++
		}
	}
	require.GreaterOrEqual(t, compared, 16)
}

// TestVocabulariesAgreeWithLlamaCpp tests all vocabularies in the folder tokenizers. A user
// may add vocabularies of llama.cpp to the four of the shared data.
func TestVocabulariesAgreeWithLlamaCpp(t *testing.T) {
	folder := data(t, "tokenizers")
	required := map[string]bool{}
	for _, name := range []string{"llama-spm", "gpt-2", "qwen2", "llama-bpe"} {
		path := filepath.Join(folder, "ggml-vocab-"+name+".gguf")
		require.FileExists(t, path+".inp")
		required[path] = true
	}
	paths, err := filepath.Glob(filepath.Join(folder, "ggml-vocab-*.gguf"))
	require.NoError(t, err)
	bert := filepath.Join("testdata", "ggml-vocab-bert-bge.gguf")
	paths, required[bert] = append(paths, bert), true
	for _, base := range paths {
		t.Run(filepath.Base(base), func(t *testing.T) {
			if _, err := os.Stat(base + ".inp"); err != nil {
				t.Skip("no vectors for it")
			}
			f, err := gguf.Open(base)
			require.NoError(t, err)
			defer f.Close()
			tok, err := tokenizer.New(f)
			if errors.Is(err, errors.ErrUnsupported) && !required[base] {
				t.Skip(err)
			}
			require.NoError(t, err)
			kind, err := f.Str("tokenizer.ggml.model")
			require.NoError(t, err)
			texts, lines := readVectors(t, base)
			for i, text := range texts {
				got, err := tok.Encode(text, tokenizer.EncodeOptions{})
				require.NoError(t, err)
				require.Equal(t, lines[i], got, "text %d: %q", i, text)
				if kind == "bert" { // the tokens of BERT keep neither case nor accents nor white space
					continue
				}
				back := tok.Decode(got)
				if kind == "llama" {
					back = strings.TrimPrefix(back, " ")
				}
				require.Equal(t, text, back)
			}
		})
	}
}

// readVectors returns the texts, 46 or more, and their ids.
func readVectors(t *testing.T, base string) (texts []string, ids [][]int32) {
	t.Helper()
	inp, err := os.ReadFile(base + ".inp")
	require.NoError(t, err)
	texts = strings.Split(strings.TrimSuffix(string(inp), "\n__ggml_vocab_test__\n"), "\n__ggml_vocab_test__\n")
	out, err := os.ReadFile(base + ".out")
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		row := []int32{}
		for _, field := range strings.Fields(line) {
			id, err := strconv.Atoi(field)
			require.NoError(t, err)
			row = append(row, int32(id))
		}
		ids = append(ids, row)
	}
	require.GreaterOrEqual(t, len(texts), 44)
	require.Len(t, ids, len(texts))
	return texts, ids
}

func TestRecordedSmolLM2PromptsEncodeAlike(t *testing.T) {
	tok := load(t, data(t, "models/smollm2-135m-instruct-q4_1.gguf"))
	f, err := os.Open(data(t, "traces/smollm2-135m-instruct-q4_1.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	compared := 0
	for lines.Scan() {
		var row struct {
			ID             string
			Prompt, Output string
			PromptIDs      []int32 `json:"prompt_ids"`
			OutputIDs      []int32 `json:"output_ids"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
		got, err := tok.Encode(row.Prompt, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
		require.NoError(t, err)
		require.Equal(t, row.PromptIDs, got, row.ID)
		require.Equal(t, row.Prompt, tok.DecodeSpecial(got), row.ID)
		require.Equal(t, row.Output, tok.Decode(row.OutputIDs), row.ID)
		compared++
	}
	require.NoError(t, lines.Err())
	require.Equal(t, 78, compared)
}
