package enable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Status describes one model in a list of Ollama's models.
type Status struct {
	Name string `json:"name"`
	// Variant is set if the model is an NPU variant. For a variant, Base is the name of
	// a model with the same weights, or empty if there is none, and Settings lists the
	// keys of the variant's adapter.
	Variant  bool     `json:"npu"`
	Base     string   `json:"base,omitempty"`
	Settings []string `json:"settings,omitempty"`
	// Unfinished is set for a variant whose name has the suffix of a variant that Enable has
	// not completed.
	Unfinished bool `json:"unfinished,omitempty"`
	// Unknown is empty, or says why sdnpu cannot find out whether the model is an NPU
	// variant.
	Unknown string `json:"unknown,omitempty"`

	// Path is the file of the model's weights.
	Path string `json:"-"`
}

// List returns the models of Ollama, sorted by name.
func (o Ollama) List(ctx context.Context) ([]Status, error) {
	c := o.client()
	names, err := c.names(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	list := []Status{}
	for _, name := range names {
		m, err := c.show(ctx, name)
		if errors.Is(err, ErrNoModel) { // the model was removed in the meantime
			continue
		}
		if err != nil {
			return nil, err
		}
		s := Status{Name: name, Path: m.Path, Unfinished: strings.HasSuffix(name, unfinishedSuffix)}
		if s.Variant, s.Settings, err = m.variantOf(); err != nil {
			s.Unknown = line(err.Error())
		}
		if !s.Variant && m.Path != "" {
			if own, settings, err := keysOf(m.Path); err == nil && own {
				s.Variant, s.Settings = true, settings
			}
		}
		list = append(list, s)
	}
	for i, s := range list {
		for _, other := range list {
			if s.Variant && !other.Variant && other.Path == s.Path {
				list[i].Base = other.Name
			}
		}
	}
	return list, nil
}

// Disable removes the NPU variant of a model and returns the variant's name. The
// argument model is the name of the variant or of its base model.
func (o Ollama) Disable(ctx context.Context, model string) (name string, err error) {
	j, err := o.begin(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	list, err := o.List(ctx)
	if err != nil {
		return "", err
	}
	if name, err = choose(list, fullName(model)); err != nil {
		return "", err
	}
	c := o.client()
	if err := c.unload(ctx, name); err != nil {
		return "", err
	}
	return name, c.remove(ctx, name)
}

// choose returns the name of the NPU variant that a user means by a model's name. If the named
// model is a variant, choose returns its name. If the named model is a base model, choose
// returns the variant with the default name or, if there is none, the only variant of the
// model's weights.
func choose(list []Status, name string) (string, error) {
	i := slices.IndexFunc(list, func(s Status) bool { return strings.EqualFold(s.Name, name) })
	if i < 0 {
		return "", fmt.Errorf("%s: %w: `sdnpu enable --list` lists the models of Ollama", line(name), ErrNoModel)
	}
	named := list[i]
	var variants []string // variants lists NPU variants of the named model's weights
	others := 0
	for k, s := range list {
		if s.Path != named.Path || k == i || s.Unfinished {
			continue
		}
		others++
		if s.Variant {
			variants = append(variants, s.Name)
		}
	}
	if named.Unknown != "" {
		return "", fmt.Errorf("%s: the adapter of the model cannot be read: %s", line(name), named.Unknown)
	}
	if named.Variant {
		if others == 0 {
			return "", fmt.Errorf("%s: %w, so the weights would be lost: `ollama rm %s` removes the name and the weights", line(name), ErrLastName, line(name))
		}
		return named.Name, nil
	}
	if standard := VariantName(named.Name); slices.Contains(variants, standard) {
		return standard, nil
	}
	switch len(variants) {
	case 0:
		return "", fmt.Errorf("%s: %w: `sdnpu enable --list` lists the variants", line(name), ErrNotEnabled)
	case 1:
		return variants[0], nil
	}
	return "", fmt.Errorf("%s has %d NPU variants: name one of %s", line(name), len(variants), line(strings.Join(variants, ", ")))
}
