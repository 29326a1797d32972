package model

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/gguf"
)

// Model is a checked GGUF file, ready to be written as graphs. It reads the
// file's mapping, so the file stays open as long as the Model, its graphs'
// constants included, is used.
type Model struct {
	file   *gguf.File
	config Config
	global layer
	layers []layer
	views  []View
}

// layer holds tensors by what they do; nil where there is none.
type layer [roles]*weight

// Load checks hyper-parameters and the presence, type and shape of every
// tensor. What is missing or contradicts itself is [ErrInvalid]; what a later
// version might run is [errors.ErrUnsupported]. It reads no weights.
func Load(f *gguf.File) (*Model, error) {
	arch, err := findArchitecture(f.Architecture())
	if err != nil {
		return nil, err
	}
	if err := checkKeys(f); err != nil {
		return nil, err
	}
	m := &Model{file: f}
	if m.config, err = readConfig(f); err != nil {
		return nil, err
	}
	if m.config.Vocab, err = countVocabulary(f); err != nil {
		return nil, err
	}
	if err := m.findTensors(arch); err != nil {
		return nil, err
	}
	m.views = views(m.config)
	return m, nil
}

// Config returns the hyper-parameters.
func (m *Model) Config() Config { return m.config }

// Digest identifies the weights: the SHA-256 of the file, in hexadecimal. The
// first call reads the whole file.
func (m *Model) Digest() string {
	sum := m.file.Digest()
	return hex.EncodeToString(sum[:])
}

func findArchitecture(name string) (architecture, error) {
	known := make([]string, len(architectures))
	for i, a := range architectures {
		if known[i] = a.name; a.name == name {
			return a, nil
		}
	}
	return architecture{}, unsupported("architecture %q is none of %s", name, strings.Join(known, ", "))
}

// countVocabulary takes the number of tokens from the embedding's table: the
// key vocab_size is missing in many files and wrong in some.
func countVocabulary(f *gguf.File) (int, error) {
	t, err := f.Tensor(tokenTable)
	switch {
	case err != nil:
		return 0, fmt.Errorf("model: %w: %w", ErrInvalid, err)
	case len(t.Shape) != 2 || t.Shape[1] > maxSize:
		return 0, fmt.Errorf("model: %w: tensor %s has shape %v: a table wanted", ErrInvalid, t.Name, t.Shape)
	}
	return t.Shape[1], nil
}

// findTensors gives every tensor of the file its role. A tensor left over
// belongs to a feature that the graphs lack.
func (m *Model) findTensors(arch architecture) error {
	used := make(map[string]bool)
	for _, rule := range arch.global {
		w, err := m.find(arch, rule, rule.pattern)
		if err != nil {
			return err
		}
		if m.global[rule.role] = w; w != nil {
			used[w.name] = true
		}
	}
	for i := range m.config.Layers {
		m.layers = append(m.layers, layer{})
		for _, rule := range arch.layer {
			w, err := m.find(arch, rule, fmt.Sprintf(rule.pattern, i))
			if err != nil {
				return err
			}
			if m.layers[i][rule.role] = w; w != nil {
				used[w.name] = true
			}
		}
	}
	for t := range m.file.Tensors() {
		if !used[t.Name] {
			return unsupported("tensor %s has no place in architecture %s", t.Name, arch.name)
		}
	}
	return nil
}

// find checks one tensor against its rule; nil is an optional one's absence.
func (m *Model) find(arch architecture, rule tensorRule, name string) (*weight, error) {
	t, err := m.file.Tensor(name)
	if errors.Is(err, gguf.ErrNoTensor) && rule.optional {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("model: %w: %w", ErrInvalid, err)
	}
	w := &weight{name: name, data: t.Bytes(), format: t.Type, rows: rule.rows(m.config), columns: 1, vector: rule.columns == nil}
	want := []int{w.rows}
	if !w.vector {
		w.columns = rule.columns(m.config)
		want = []int{w.columns, w.rows}
	}
	if rule.rotated {
		w.order, w.headDim = arch.rows, m.config.HeadDim
	}
	switch {
	case !slices.Equal(t.Shape, want):
		return nil, fmt.Errorf("model: %w: tensor %s has shape %v, %v wanted (GGUF order)", ErrInvalid, name, t.Shape, want)
	case !t.Type.CanDequantize() || w.columns%t.Type.BlockSize() != 0:
		return nil, unsupported("tensor %s has type %v", name, t.Type)
	}
	return w, nil
}

// values makes the elements of a tensor a graph's constant.
func (m *Model) values(w *weight, t backend.DataType) backend.Values {
	return backend.Values{
		ID:   fmt.Sprintf("%s/%s/%s/%v", m.Digest(), w.name, w.transform(), t),
		Fill: func(dst []byte) error { return w.fill(dst, t) },
	}
}
