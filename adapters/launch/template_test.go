package launch_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/chat"
	"github.com/sdnpu/sdnpu/adapters/launch"
)

// As in llama-server, a model without a chat template gets ChatML, and a context that is longer
// than the model's counts as the model's.
func TestModelsAreServedAsByLlamaServer(t *testing.T) {
	conversation := chat.Conversation{Messages: []chat.Message{{Role: "user", Content: "Hi"}}}
	for template, want := range map[string]string{
		"": "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
		"{% for m in messages %}[{{ m.content }}]{% endfor %}": "[Hi]",
	} {
		s := launch.Settings{Library: "float"}
		c, err := launch.ResolveConfig("../../integration_test/models/stories260K-f16.gguf", nil)
		require.NoError(t, err)
		m, err := s.Open(t.Context(), "sdnpu", launch.Options{
			Path: "../../integration_test/models/stories260K-f16.gguf", Config: c, Context: 4096, Sequences: 1, CapContext: true, ChatTemplate: template,
			Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		require.Equal(t, 512, m.ContextLength())
		served, err := m.ServedTemplate()
		require.NoError(t, err)
		text, err := served.Render(t.Context(), conversation)
		require.NoError(t, err)
		require.Equal(t, want, text)
		_, err = m.Template()
		require.ErrorIs(t, err, chat.ErrNoTemplate)
		require.NoError(t, m.Close())
	}
}
