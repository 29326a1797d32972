// Package chat formats a conversation with the Jinja chat template of a model's
// GGUF.
//
// A template is a program from an untrusted file. The template can read the
// messages only: no file and no environment variable. Tools and images are not
// supported.
package chat

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

var (
	// ErrTemplate is returned if a template cannot be parsed or fails while it
	// runs.
	ErrTemplate = errors.New("chat: the chat template in the model file is invalid")
	// ErrNoTemplate is returned if the model has no template.
	ErrNoTemplate = errors.New("chat: the model has no chat template")
)

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Template is a model's parsed template. A Template is not safe for concurrent use.
type Template struct {
	template *exec.Template
	bos, eos string
}

// templateName stands for the template in errors of the template engine.
const templateName = "chat_template"

// New parses a template. bos and eos are the texts of the model's begin- and
// end-of-sequence tokens.
func New(source, bos, eos string) (_ *Template, err error) {
	if source == "" {
		return nil, ErrNoTemplate
	}
	defer recovered(&err)
	c := config.New()
	// New sets up the template engine as Hugging Face's library transformers does.
	c.TrimBlocks, c.LeftStripBlocks = true, true
	loader, err := loaders.NewMemoryLoader(map[string]string{"/" + templateName: source})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	t, err := exec.NewTemplate("/"+templateName, c, loader, gonja.DefaultEnvironment)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	return &Template{template: t, bos: bos, eos: eos}, nil
}

// Render returns the text of the messages, followed by the start of the
// assistant's turn.
func (t *Template) Render(messages []Message) (_ string, err error) {
	defer recovered(&err)
	list := make([]any, len(messages))
	for i, m := range messages {
		list[i] = map[string]any{"role": m.Role, "content": m.Content}
	}
	var text strings.Builder
	err = t.template.Execute(&text, exec.NewContext(map[string]any{
		"messages": list, "add_generation_prompt": true, "bos_token": t.bos, "eos_token": t.eos, "tools": nil,
		"raise_exception": func(why string) (string, error) { return "", errors.New(why) },
	}))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	return text.String(), nil
}

// recovered turns a panic into an error, because the template engine panics on some
// invalid templates.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", ErrTemplate, r)
	}
}
