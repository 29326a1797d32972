package launch

import (
	"fmt"

	"github.com/sdnpu/sdnpu/adapters/chat"
)

// Template parses the chat template in the model's GGUF file.
func (m *Model) Template() (*chat.Template, error) {
	source, err := m.File.Str("tokenizer.chat_template", "")
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	t := m.Tokenizer
	return chat.New(source, string(t.PieceSpecial(t.BOS())), string(t.PieceSpecial(t.EOS())))
}
