package enable

import (
	"context"
	"fmt"
)

// Files asks Ollama for the file of a model's weights, and for its adapters that only
// carry settings of sdnpu. Files returns an error if this program cannot run the model
// from these files.
func (o Ollama) Files(ctx context.Context, name string) (path string, adapters []string, err error) {
	m, err := o.client().show(ctx, name)
	if err != nil {
		return "", nil, err
	}
	refuse := func(format string, a ...any) (string, []string, error) {
		return "", nil, fmt.Errorf("%s: %w: %w", line(m.Name), ErrUnsuitable, fmt.Errorf(format, a...))
	}
	switch {
	case m.Remote != "":
		return refuse("the model runs on %s and not on this machine: pull a model that runs here", m.Remote)
	case m.Path == "":
		return refuse("Ollama reports no file of its weights: choose a model in GGUF format")
	}
	if err := m.checkFiles(); err != nil {
		return refuse("%w", err)
	}
	for _, adapter := range m.Adapters {
		if selected, _, err := keysOf(adapter); err != nil || !selected {
			return refuse("the model's adapter changes the weights (LoRA): choose a model without such an adapter")
		}
	}
	return m.Path, m.Adapters, nil
}
