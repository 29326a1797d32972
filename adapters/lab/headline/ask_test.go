package headline

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/integration_test/host"
)

// TestEnergyIsPowerTimesTime charges one lane at a time with a power of one watt.
func TestEnergyIsPowerTimesTime(t *testing.T) {
	fields := host.Fields{"device_npu_ms": "2000", "device_load_ms": "300", "device_drafting_ms": "40"}
	for _, test := range []struct {
		power graphswap.Power
		want  float64
	}{
		{graphswap.Power{NPU: 1}, 2},
		{graphswap.Power{Loading: 1}, 0.3},
		{graphswap.Power{CPU: 1}, 0.04},
		{graphswap.Power{Idle: 1}, 5},
		{graphswap.Power{NPU: 5, CPU: 6.5, Loading: 3, Idle: 1}, 10 + 0.9 + 0.26 + 5},
	} {
		r := reader{fields: fields}
		require.InDelta(t, test.want, joules(test.power, &r, 5000), 1e-9)
		require.NoError(t, r.err)
	}
	for name := range fields {
		r := reader{fields: host.Fields{"device_npu_ms": "1", "device_load_ms": "1", "device_drafting_ms": "1"}}
		delete(r.fields, name)
		joules(graphswap.Power{}, &r, 1)
		require.ErrorContains(t, r.err, name, "a report without a time has no energy")
	}
}

func TestTemplatesFollowTheModelsOwn(t *testing.T) {
	for own, want := range map[string]string{
		"":                            noChat,
		"{{ x }}<|im_start|>user":     chatML,
		"<|start_header_id|>{{ x }}":  llama3,
		"[INST] {{ something else }}": noChat,
	} {
		keys := []gguf.KeyValue{{Name: "general.architecture", Value: "llama"}}
		if own != "" {
			keys = append(keys, gguf.KeyValue{Name: "tokenizer.chat_template", Value: own})
		}
		var content bytes.Buffer
		require.NoError(t, gguf.Write(&content, keys, nil))
		path := filepath.Join(t.TempDir(), "model.gguf")
		require.NoError(t, os.WriteFile(path, content.Bytes(), 0o600))
		got, err := TemplateOf(path)
		require.NoError(t, err)
		require.Equal(t, want, got, own)
	}
	_, err := TemplateOf(filepath.Join(t.TempDir(), "missing.gguf"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestUnknownSystemsAreNamed(t *testing.T) {
	_, err := Open(t.Context(), Options{Systems: []string{"llmnpu"}})
	require.ErrorContains(t, err, `system "llmnpu": want one of off, coordgen, paper, auto`)
}
