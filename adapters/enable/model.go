package enable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/internal/printable"
)

// Model describes a model of Ollama, as Ollama reports it.
type Model struct {
	// Name is the model's name with its tag.
	Name string
	// Path is the file of the model's weights, and Adapters are the files of its
	// adapters. Path and Adapters are empty for models that run on another host.
	Path     string
	Adapters []string
	// Parameters holds the PARAMETER lines of the Modelfile by name.
	Parameters map[string]string
	// Capabilities lists what the model can do, such as "completion" and "vision".
	Capabilities []string
	// Remote is the other host on which the model runs. Remote is empty if the model
	// runs on this machine.
	Remote string
}

// line returns text of unknown origin as one printable line.
func line(text string) string { return printable.Line(strings.Join(strings.Fields(text), " ")) }

// fullName adds the default tag to a name without a tag.
func fullName(name string) string {
	if !strings.Contains(path.Base(name), ":") {
		return name + ":latest"
	}
	return name
}

// VariantName returns the default name of a model's NPU variant: the tag gets the
// suffix -npu. The variant of a model with the tag latest has the tag npu.
func VariantName(name string) string {
	full := fullName(name)
	if base, latest := strings.CutSuffix(full, ":latest"); latest {
		return base + ":npu"
	}
	return full + "-npu"
}

// show asks Ollama for the description of a model.
func (c client) show(ctx context.Context, name string) (Model, error) {
	var answer struct {
		Modelfile    string
		RemoteHost   string `json:"remote_host"`
		Capabilities []string
	}
	err := c.call(ctx, http.MethodPost, "/api/show", map[string]any{"model": name}, &answer)
	if hasStatus(err, http.StatusNotFound) || hasStatus(err, http.StatusBadRequest) {
		return Model{}, fmt.Errorf("%s: %w at %s: `sdnpu enable --list` lists the models of Ollama, `ollama pull` fetches others", line(name), ErrNoModel, c.url)
	}
	if err != nil {
		return Model{}, err
	}
	m := Model{Name: fullName(name), Capabilities: answer.Capabilities, Remote: line(answer.RemoteHost), Parameters: map[string]string{}}
	m.readModelfile(answer.Modelfile)
	return m, nil
}

// readModelfile returns the paths and parameters in a Modelfile that Ollama wrote. In
// a Modelfile, Ollama writes the weights first, then the adapters, and then texts
// over several lines.
func (m *Model) readModelfile(text string) {
	texts := false
	for l := range strings.Lines(text) {
		command, value, _ := strings.Cut(strings.TrimRight(l, "\r\n"), " ")
		switch {
		case command == "FROM" && m.Path == "":
			m.Path = value
		case command == "ADAPTER" && !texts:
			m.Adapters = append(m.Adapters, value)
		case command == "TEMPLATE" || command == "SYSTEM":
			texts = true // a text in a Modelfile can contain lines that look like commands
		case command == "PARAMETER":
			if name, value, ok := strings.Cut(value, " "); ok {
				m.Parameters[name] = strings.Trim(value, `"`)
			}
		}
	}
}

// variantOf reads from a model's adapters whether they select the NPU, and their
// settings. If an adapter selects the NPU, selected is true, and settings lists the
// adapter's other keys.
func (m Model) variantOf() (selected bool, settings []string, err error) {
	for _, file := range m.Adapters {
		own, values, err := keysOf(file)
		if err != nil {
			return false, nil, err
		}
		if own {
			selected, settings = true, append(settings, values...)
		}
	}
	return selected, settings, nil
}

// keysOf reads from a GGUF file whether it selects the NPU, and its other settings.
func keysOf(file string) (selected bool, settings []string, err error) {
	f, err := gguf.OpenKeys(file)
	if err != nil {
		return false, nil, err
	}
	defer f.Close()
	source, err := config.GGUF(file, f)
	if err != nil {
		return false, nil, err
	}
	if selected, err = config.Enabled(source); err != nil || !selected {
		return false, nil, err
	}
	for _, k := range config.Keys[1:] {
		if value, ok := source.Lookup(k); ok {
			settings = append(settings, line(strings.TrimPrefix(k.Name, config.Prefix)+"="+config.Short(value)))
		}
	}
	return true, settings, nil
}

// checkBase returns an error that says why a model cannot be the base of a variant.
// checkBase changes nothing.
func (m Model) checkBase() error {
	refuse := func(format string, a ...any) error {
		return fmt.Errorf("%s: %w: %w", line(m.Name), ErrUnsuitable, fmt.Errorf(format, a...))
	}
	switch {
	case m.Remote != "":
		return refuse("the model runs on %s and not on this machine: pull a model that runs here", m.Remote)
	case len(m.Capabilities) > 0 && !slices.Contains(m.Capabilities, "completion"):
		return refuse("the model computes no text (its capabilities: %s): choose a model for text", line(strings.Join(m.Capabilities, ", ")))
	case m.Path == "":
		return refuse("Ollama reports no file of its weights: choose a model in GGUF format")
	}
	if n, err := strconv.Atoi(m.Parameters["num_gpu"]); err == nil && n == 0 {
		return refuse("the model's parameter num_gpu 0 asks for the CPU: create and enable a model without this parameter")
	}
	if err := m.checkFiles(); err != nil {
		return refuse("%w", err)
	}
	selected, _, err := m.variantOf()
	switch {
	case err != nil:
		return refuse("%w", err)
	case selected:
		return refuse("the model is an NPU variant already: name its base model to change the settings of the variant")
	case len(m.Adapters) > 0:
		return refuse("the model's adapter changes the weights (LoRA), and Ollama takes only one adapter: choose a model without an adapter")
	}
	if selected, _, err := keysOf(m.Path); err == nil && selected {
		return refuse("the model's file selects the NPU already: use the model without a variant")
	}
	return nil
}

// checkFiles checks that the model's files can be read.
func (m Model) checkFiles() error {
	for _, file := range append([]string{m.Path}, m.Adapters...) {
		f, err := os.Open(file)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("%s does not exist on this machine: run this command on the machine of Ollama", line(file))
		case errors.Is(err, os.ErrPermission):
			return fmt.Errorf("%s cannot be read: run this command as the user of `ollama serve`, such as sudo -u ollama", line(file))
		case err != nil:
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
