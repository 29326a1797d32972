package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/internal/printable"
)

// GGUF returns a source that reads sdnpu's keys from a file's metadata. The argument `name`
// is the name of the file in messages. Values may have any type that fits: true, "true" and
// 1 all select a model, and rows may be "128,1" or an array.
func GGUF(name string, f *gguf.File) (Source, error) {
	s := Source{Name: name, Names: []string{}, FromModel: true}
	values := map[string]string{}
	for key := range f.Keys() {
		if !strings.HasPrefix(key.Name, Prefix) {
			continue
		}
		text, err := text(f, key)
		if err != nil {
			return Source{}, fmt.Errorf("config: %w: %s in %s: %w", ErrSetting, printable.Line(Short(key.Name)), name, err)
		}
		values[key.Name] = text
		s.Names = append(s.Names, key.Name)
	}
	s.Lookup = func(k Key) (string, bool) {
		value, ok := values[k.Name]
		return value, ok
	}
	return s, nil
}

// maxElements limits the length of arrays in a model file, because the file may be
// malicious. The longest array in a key of sdnpu is a list of graph widths or of
// contexts.
const maxElements = 256

// text returns the value of a key as text.
func text(f *gguf.File, key gguf.Key) (string, error) {
	switch key.Type {
	case gguf.String:
		return f.Str(key.Name)
	case gguf.Bool:
		v, err := f.Bool(key.Name)
		return strconv.FormatBool(v), err
	case gguf.Float32, gguf.Float64:
		v, err := f.Float(key.Name)
		return strconv.FormatFloat(v, 'g', -1, 64), err
	case gguf.Array:
		if key.Len > maxElements {
			return "", fmt.Errorf("an array of %d elements: want at most %d", key.Len, maxElements)
		}
		v, err := f.Ints(key.Name)
		parts := make([]string, len(v))
		for i, n := range v {
			parts[i] = strconv.FormatInt(n, 10)
		}
		return strings.Join(parts, ","), err
	}
	v, err := f.Int(key.Name)
	return strconv.FormatInt(v, 10), err
}
