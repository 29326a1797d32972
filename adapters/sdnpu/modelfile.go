package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/mapped"
)

// errAdapter is returned for the file that select --adapter writes where a model
// is wanted.
var errAdapter = errors.New(`an "adapter", not a model: name the model's own GGUF (an adapter stands in a Modelfile's ADAPTER line)`)

// openGGUF opens a model's file, or says what to do about one that is none.
func openGGUF(path string) (*gguf.File, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, withModelRemedy(err)
	}
	if kind, err := f.Str("general.type", ""); err == nil && kind == "adapter" {
		return nil, errors.Join(fmt.Errorf("%s is %w", path, errAdapter), f.Close())
	}
	return f, nil
}

// withModelRemedy adds what to do to the error of a model that cannot run.
func withModelRemedy(err error) error { return fmt.Errorf("%w; %s", err, remedyOf(err)) }

// remedyOf says what to do about a model that cannot run.
func remedyOf(err error) string {
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission), errors.Is(err, mapped.ErrNotRegular):
		return "give the path of a GGUF file that can be read"
	case errors.Is(err, gguf.ErrMagic):
		return "it is a file of another kind, or damaged: give the path of a GGUF file"
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, gguf.ErrUnsupported):
		return "do not select this model: Ollama's own runner may run it; or take one of a listed architecture and type"
	}
	return "the file is damaged or was converted wrongly: fetch or convert it again"
}
