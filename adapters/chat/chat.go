// Package chat writes a conversation as the model was taught to read one: by
// the Jinja template that its GGUF carries.
//
// A template is a program out of a file that somebody else made: it sees the
// messages and nothing else, no other file and no variable of this process.
// Tools and pictures are not passed to it.
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
	// ErrTemplate is returned for a template that cannot be read or fails.
	ErrTemplate = errors.New("chat: the model's template")
	// ErrNoTemplate is returned where the model has none.
	ErrNoTemplate = errors.New("chat: the model has no chat template")
)

// Message is one turn.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Template is a model's, ready to use from one goroutine.
type Template struct {
	template *exec.Template
	bos, eos string
}

// templateName is what the template is called in its errors.
const templateName = "chat_template"

// New reads a template; bos and eos are the texts of the model's tokens.
func New(source, bos, eos string) (_ *Template, err error) {
	if source == "" {
		return nil, ErrNoTemplate
	}
	defer recovered(&err)
	c := config.New()
	// As Hugging Face renders templates.
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

// Render writes the messages and the beginning of the assistant's answer.
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

// recovered makes an error of a panic: the engine has some for templates that
// make no sense.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", ErrTemplate, r)
	}
}
