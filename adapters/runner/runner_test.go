package runner

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/atomicfile"
	"github.com/sdnpu/sdnpu/adapters/llamaserver/arguments"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/quant"
)

const story = "../../integration_test/models/stories260K-f16.gguf"

func TestQuantizeNeverOverwritesItsInput(t *testing.T) {
	dir := t.TempDir()
	in, out, hard := filepath.Join(dir, "in.gguf"), filepath.Join(dir, "out.gguf"), filepath.Join(dir, "hard.gguf")
	want, err := os.ReadFile(story)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(in, want, 0o600))
	require.NoError(t, os.Link(in, hard))
	for _, target := range []string{in, hard} {
		require.ErrorContains(t, Quantize(t.Context(), io.Discard, []string{in, target, "COPY"}), "name another")
	}
	require.NoError(t, Quantize(t.Context(), io.Discard, []string{"--allow-requantize", in, out, "COPY"}))
	for _, path := range []string{in, out} {
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, string(want) == string(got), path)
	}
}

func TestQuantizeWritesToTheFileThatOllamaHoldsOpen(t *testing.T) {
	held, err := os.CreateTemp(t.TempDir(), "COPY")
	require.NoError(t, err)
	defer held.Close()
	require.NoError(t, Quantize(t.Context(), io.Discard, []string{story, held.Name(), "COPY"}))
	got, err := io.ReadAll(held)
	require.NoError(t, err)
	want, err := os.ReadFile(story)
	require.NoError(t, err)
	require.True(t, string(want) == string(got), "read through the open handle: %d bytes of %d", len(got), len(want))
}

func TestAdapterThatChangesWeightsGoesToTheOriginal(t *testing.T) {
	dir := t.TempDir()
	adapter := func(tensor string) string {
		path := filepath.Join(dir, tensor+".gguf")
		require.NoError(t, atomicfile.Write(t.Context(), path, 0o600, func(w io.Writer) error {
			return gguf.Write(w,
				[]gguf.KeyValue{{Name: "general.type", Value: "adapter"}, {Name: "sdnpu.enabled", Value: true}},
				[]gguf.NewTensor{{Name: tensor, Type: quant.F32, Shape: []int{1}, Data: make([]byte, 4)}})
		}))
		return path
	}
	settingsOnly, lora := adapter("sdnpu.mark"), adapter("blk.0.attn_q.weight.lora_a")
	for _, tt := range []struct {
		lora   []string
		reason string
	}{
		{[]string{settingsOnly}, ""},
		{[]string{lora}, "LoRA"},
		{[]string{settingsOnly, lora}, "LoRA"},
		{nil, "not selected"},
	} {
		_, reason, err := readConfig(arguments.Args{Model: story, Lora: tt.lora, GPULayers: -1}, nil)
		require.NoError(t, err)
		require.Equal(t, tt.reason == "", reason == "", "%v: %s", tt.lora, reason)
		require.Contains(t, reason, tt.reason)
	}
}

func TestOllamaDebugIsReadAsOllamaDoes(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "false": false, "1": true, "true": true, "2": true} {
		t.Setenv("OLLAMA_DEBUG", value)
		require.Equal(t, want, hostDebugs(), "OLLAMA_DEBUG=%q", value)
	}
}
