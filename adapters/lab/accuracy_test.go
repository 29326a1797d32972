package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAccuracyContinuesAnInterruptedRun compares a run in one piece with a run whose file has lost
// lines.
func TestAccuracyContinuesAnInterruptedRun(t *testing.T) {
	t.Setenv("SDNPU_CACHE", t.TempDir())
	passages := textFile(t, "lambada.jsonl", `{"text": "Once upon a time there was a little girl."}`+"\n"+`{"text": "The dog ran to the park."}`+"\n")
	story := textFile(t, "wiki.txt", strings.Repeat("One day, a little girl named Lily found a needle in her room. ", 20))
	scores := filepath.Join(t.TempDir(), "scores.jsonl")
	run := func(more ...string) string {
		args := []string{"shadow", "accuracy", "../../integration_test/models/stories260K-f16.gguf", "--lambada", passages, "--wikitext", story, "--items", "2", "--library", "float", "--techniques", "plain W8A8", "-o", scores}
		table, err := lab(t, append(args, more...)...)
		require.NoError(t, err)
		return table
	}
	first := run()
	require.Regexp(t, `(?m)^ *lambada +items .* right +points`, first)
	require.Regexp(t, `(?m)^ *float32 +2 .* \+0.00 % +100.00 %`, first)
	require.Regexp(t, `(?m)^ *plain W8A8 +2 `, first)
	require.Regexp(t, `(?m)^ *published: llm.npu +-1.2 *$`, first)
	require.Regexp(t, `(?m)^ *wikitext +items +perplexity`, first)

	whole, err := os.ReadFile(scores)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(whole), "\n")
	require.Len(t, lines, 9, "two items of two tasks in two techniques, and the end of the file")
	require.NoError(t, os.WriteFile(scores, []byte(strings.Join(lines[1:5], "")), 0o600))
	require.Equal(t, first, run())
	again, err := os.ReadFile(scores)
	require.NoError(t, err)
	require.ElementsMatch(t, lines, strings.SplitAfter(string(again), "\n"))
	require.Contains(t, run("--json"), `{"task":"lambada","technique":"float32","items":2,`)

	require.NoError(t, os.WriteFile(scores, []byte("{"), 0o600))
	_, err = lab(t, "shadow", "accuracy", "../../integration_test/models/stories260K-f16.gguf", "--lambada", passages, "--library", "float", "-o", scores)
	require.ErrorContains(t, err, "delete the file to start again")
}
