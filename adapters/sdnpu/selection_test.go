package main

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/llamaserver"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/quant"
)

func TestAnAdapterThatChangesWeightsIsNotLeftOut(t *testing.T) {
	dir := t.TempDir()
	adapter := func(tensor string) string {
		path := filepath.Join(dir, tensor+".gguf")
		require.NoError(t, writeFile(t.Context(), path, 0o600, func(w io.Writer) error {
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
		_, reason, err := selection(llamaserver.Args{Model: story, Lora: tt.lora, GPULayers: -1})
		require.NoError(t, err)
		require.Equal(t, tt.reason == "", reason == "", "%v: %s", tt.lora, reason)
		require.Contains(t, reason, tt.reason)
	}
}
