package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/chat"
	"github.com/sdnpu/sdnpu/adapters/lab/bench"
	"github.com/sdnpu/sdnpu/backend/gguf"
)

// TestChatsAreEncodedAsLlamaCppDoes compares encoded chats with token ids that
// were recorded from llama.cpp's server.
func TestChatsAreEncodedAsLlamaCppDoes(t *testing.T) {
	folder := os.Getenv("SDNPU_DATA")
	if _, err := os.Stat(filepath.Join(folder, "traces")); folder == "" || err != nil {
		require.NotContains(t, os.Getenv("SDNPU_REQUIRE"), "data")
		t.Skip("SDNPU_DATA holds no traces")
	}
	want := make(map[string][]int32)
	file, err := os.Open(filepath.Join(folder, "traces", "smollm2-135m-instruct-q4_1.jsonl"))
	require.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var trace struct {
			ID     string  `json:"id"`
			Prompt []int32 `json:"prompt_ids"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &trace))
		want[trace.ID] = trace.Prompt
	}
	require.NoError(t, lines.Err())
	require.Len(t, want, 78)
	f := generateFlags{model: filepath.Join(folder, "models", "smollm2-135m-instruct-q4_1.gguf"), longest: 1800}
	for _, task := range []string{"summarization", "rag", "tweet_paraphrase", "ui_automation"} {
		f.prompts = append(f.prompts, filepath.Join(folder, "prompts", task+".jsonl"))
	}
	items, skipped, err := f.selectItems()
	require.NoError(t, err)
	require.Len(t, items, 308)
	require.Empty(t, skipped, "the longest has 1606 tokens")
	for _, item := range items {
		if ids, ok := want[item.ID]; ok {
			require.Equal(t, ids, item.IDs, item.ID)
			delete(want, item.ID)
		}
	}
	require.Empty(t, want)
}

func TestGenerateMeasuresTheRealCommand(t *testing.T) {
	folder := t.TempDir()
	prompts, saved := filepath.Join(folder, "p.jsonl"), filepath.Join(folder, "run.json")
	require.NoError(t, os.WriteFile(prompts, []byte(`{"task":"tale","id":"1","prompt":[{"role":"user","content":"One day"}]}`), 0o600))
	t.Setenv("SDNPU_CACHE", "off")
	model := withTemplate(t, folder)
	command := []string{"bench", "generate", "--prompts", prompts, "--model", model, "--draft", "off,default", "-n", "40", "--library", "float", "--json", "--together", "--save", saved}
	out, err := lab(t, command...)
	require.NoError(t, err)
	var got bench.Generated
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Runs, 4)
	for _, r := range got.Runs {
		require.Equal(t, 40, r.Tokens)
		require.Zero(t, r.Different)
		width := 32
		if r.Mode == "off" {
			width = 1
		}
		require.Equal(t, map[int]int{width: r.Steps}, r.Widths)
		require.Equal(t, width*r.Steps, r.Rows.Valid+r.Rows.Wasted+r.Rows.Padding)
		require.Equal(t, 39, r.Rows.Valid)
		if r.Mode == "off" {
			require.Equal(t, 39, r.Steps)
		} else {
			require.Less(t, r.Steps, 39)
			require.Positive(t, r.Rows.Wasted)
		}
	}
	text, err := os.ReadFile(saved)
	require.NoError(t, err)
	list, whole, err := bench.ReadMeasured(text)
	require.NoError(t, err)
	require.Len(t, text, whole)
	require.Len(t, list, 2)
	if runtime.GOOS == "linux" {
		require.Positive(t, list[1].DraftCPU)
		require.Positive(t, list[1].CalibrationCPU)
	}
	again, err := lab(t, command...)
	require.NoError(t, err)
	require.Equal(t, out, again, "nothing is measured twice")
}

// TestWithoutAChatTemplateTheErrorNamesRemedies also checks that the first remedy, a
// model with a chat template, helps.
func TestWithoutAChatTemplateTheErrorNamesRemedies(t *testing.T) {
	folder := t.TempDir()
	prompts := filepath.Join(folder, "p.jsonl")
	require.NoError(t, os.WriteFile(prompts, []byte(`{"task":"tale","id":"1","prompt":[{"role":"user","content":"One day"}]}`), 0o600))
	t.Setenv("SDNPU_CACHE", "off")
	generate := func(model string) error {
		_, err := lab(t, "bench", "generate", "--prompts", prompts, "--model", model, "--draft", "off", "-n", "2", "--library", "float")
		return err
	}
	err := generate(story)
	require.ErrorIs(t, err, chat.ErrNoTemplate)
	require.ErrorContains(t, err, story)
	require.ErrorContains(t, err, "whose GGUF has tokenizer.chat_template")
	require.NoError(t, generate(withTemplate(t, folder)))
	require.ErrorContains(t, err, "sdnpu-lab bench replay scores recorded texts without a model")
}

func TestRowsFollowTheCostOfADevice(t *testing.T) {
	folder := t.TempDir()
	prompts := filepath.Join(folder, "p.jsonl")
	require.NoError(t, os.WriteFile(prompts, []byte(`{"task":"tale","id":"1","prompt":[{"role":"user","content":"One day"}]}`), 0o600))
	t.Setenv("SDNPU_CACHE", "off")
	out, err := lab(t, "bench", "generate", "--prompts", prompts, "--model", withTemplate(t, folder), "-n", "40", "--library", "float", "--json", "--cost", "sd8gen2,sd8gen3")
	require.NoError(t, err)
	var got bench.Generated
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	rows := make(map[string]int)
	for _, r := range got.Runs {
		require.Zero(t, r.Different)
		require.NotNil(t, r.Modelled)
		require.Positive(t, r.PerToken)
		for width, n := range r.Widths {
			rows[r.Device] += width * n
		}
	}
	require.Greater(t, rows["sd8gen2"], 2*rows["sd8gen3"], "32 rows cost 1.3 times as much as one there, and 3.6 times here")
	_, err = lab(t, "bench", "generate", "--prompts", prompts, "--model", story, "--cost", "nokia")
	require.ErrorContains(t, err, "sd8gen2")
}

// TestMeasurementsShareTheirImages uses texts of 42 and 61 tokens, which round to
// the same context. The longest context of the model has 512 tokens.
func TestMeasurementsShareTheirImages(t *testing.T) {
	for tokens, want := range map[int]int{2: 64, 64: 64, 65: 128, 300: 512, 512: 512, 600: 600} {
		got, err := roundContext(story, tokens)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	folder := t.TempDir()
	prompts, cache := filepath.Join(folder, "p.jsonl"), filepath.Join(folder, "cache", "images")
	require.NoError(t, os.WriteFile(prompts, []byte(`{"task":"tale","id":"1","prompt":[{"role":"user","content":"One day"}]}`), 0o600))
	t.Setenv("SDNPU_CACHE", cache)
	t.Setenv("SDNPU_COMPILE", "inline")
	model, images := withTemplate(t, folder), 0
	for _, n := range []string{"10", "23"} {
		_, err := lab(t, "bench", "generate", "--prompts", prompts, "--model", model, "--draft", "off", "-n", n, "--library", "emulator", "--json")
		require.NoError(t, err)
		list, err := filepath.Glob(filepath.Join(cache, "*.image"))
		require.NoError(t, err)
		require.NotEmpty(t, list)
		require.True(t, images == 0 || images == len(list), "the second made none")
		images = len(list)
	}
}

// withTemplate writes the story model with a chat template that prints the
// messages only.
func withTemplate(t *testing.T, folder string) string {
	f, err := gguf.Open(story)
	require.NoError(t, err)
	defer f.Close()
	path := filepath.Join(folder, "chat.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.WriteWith(out, []gguf.KeyValue{{Name: "tokenizer.chat_template", Value: "{% for m in messages %}{{ m.content }}{% endfor %}"}}))
	require.NoError(t, out.Close())
	return path
}
