package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
)

// TestRecallTimeMeasuresBeyondTheModelsContext decodes after prompts that are longer than the slots and
// than the model's context.
func TestRecallTimeMeasuresBeyondTheModelsContext(t *testing.T) {
	t.Setenv("SDNPU_LIBRARY", "float")
	t.Setenv("SDNPU_CACHE", t.TempDir())
	text := textFile(t, "text.txt", strings.Repeat("Once upon a time, there was a little girl. ", 9))
	args := []string{"recall", "time", story, "--text", text, "--slots", "384", "--output", "6", "--lengths", "300,900"}
	_, err := lab(t, args...)
	require.ErrorContains(t, err, "512")
	for _, draft := range []string{"off", "default"} {
		out, err := lab(t, append(args, "--stretch", "--draft", draft)...)
		require.NoError(t, err)
		require.Contains(t, out, "the model's context is 512 tokens: positions are divided by 2")
		require.Regexp(t, `(?m)^300 tokens on 322 slots: .* 5 tokens in \d passes .*; 0 of 0 blocks ran again; the choice of pages kept this machine's threads busy for 0s per token$`, out)
		long := regexp.MustCompile(`(?m)^900 tokens on 384 slots: .* 5 tokens in (\d) passes .*; \d of (\d) blocks ran again; the choice of pages kept this machine's threads busy for [1-9].*s per token$`).FindStringSubmatch(out)
		require.NotNil(t, long, out)
		require.Equal(t, long[1], long[2], "the model has one block")
		require.Equal(t, draft == "off", long[1] == "5", "drafts save passes")
		require.Regexp(t, `(?m)^900 tokens: \d+\.\d{3} x the time of a token at 300, \d+\.\d{3} x that of a pass$`, out)
	}
}

func TestStretchedModelsDividePositions(t *testing.T) {
	folder := t.TempDir()
	same, err := stretchedModel(story, folder, 512, nil)
	require.NoError(t, err)
	require.Equal(t, story, same)
	var note strings.Builder
	path, err := stretchedModel(story, folder, 1025, &note)
	require.NoError(t, err)
	require.Contains(t, note.String(), "divided by 3")
	file, err := gguf.OpenKeys(path)
	require.NoError(t, err)
	defer file.Close()
	context, err := file.ArchUint("context_length")
	require.NoError(t, err)
	require.EqualValues(t, 3*512, context)
	factor, err := file.Float("llama.rope.scaling.factor")
	require.NoError(t, err)
	require.EqualValues(t, 3, factor)
	_, err = stretchedModel(path, t.TempDir(), 9999, nil)
	require.ErrorContains(t, err, "scales positions already (linear)")
}
