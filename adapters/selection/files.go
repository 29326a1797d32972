package selection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/sdnpu/sdnpu/adapters/atomicfile"
	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/enable"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/quant"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// WriteCopy copies the model's file and adds the keys. WriteCopy returns an error if the
// model cannot run with the keys.
func WriteCopy(ctx context.Context, model, out string, keys []gguf.KeyValue) error {
	f, err := openRunnable(model, keys)
	if err != nil {
		return err
	}
	defer f.Close()
	return atomicfile.Write(ctx, out, permissions(model), func(w io.Writer) error { return f.WriteWith(w, keys) })
}

// WriteAdapter writes an adapter file that contains only the keys. WriteAdapter returns
// an error if the model cannot run with the keys.
func WriteAdapter(ctx context.Context, model, out string, keys []gguf.KeyValue) error {
	content, err := Adapter(model, keys)
	if err != nil {
		return err
	}
	return atomicfile.Write(ctx, out, permissions(model), func(w io.Writer) error { _, err := w.Write(content); return err })
}

// Adapter returns the content of an adapter file for a model that can run with the
// keys. Ollama requires that an adapter is a GGUF of type adapter, and some readers
// require at least one tensor.
func Adapter(path string, keys []gguf.KeyValue) ([]byte, error) {
	f, err := openRunnable(path, keys)
	if err != nil {
		return nil, err
	}
	architecture := f.Architecture()
	if err := f.Close(); err != nil {
		return nil, err
	}
	all := append([]gguf.KeyValue{
		{Name: "general.type", Value: "adapter"},
		{Name: "general.architecture", Value: architecture},
		{Name: "general.name", Value: "sdnpu selection"},
	}, keys...)
	tensors := []gguf.NewTensor{{Name: "sdnpu.mark", Type: quant.F32, Shape: []int{1}, Data: make([]byte, 4)}}
	var content bytes.Buffer
	if err := gguf.Write(&content, all, tensors); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}

// The function `permissions` returns the file permissions of the model. A selected copy
// gets the permissions of the model, so that no other users can read the weights.
func permissions(model string) os.FileMode {
	if info, err := os.Stat(model); err == nil {
		return info.Mode().Perm()
	}
	return 0o600
}

// openRunnable opens a model and checks that it can run with the given keys. Without
// openRunnable's check, the user would see the problem only when Ollama loads the
// model.
func openRunnable(path string, keys []gguf.KeyValue) (_ *gguf.File, err error) {
	f, err := launch.OpenGGUF(path)
	if err != nil {
		return nil, err
	}
	if _, err = model.Load(f); err == nil {
		_, err = tokenizer.New(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w: %w", path, enable.ErrUnsuitable, launch.ModelError(err)), f.Close())
	}
	if err := resolvable(f, keys); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// resolvable returns an error if the keys contradict each other or the keys that the
// model already has.
func resolvable(f *gguf.File, keys []gguf.KeyValue) error {
	own, err := config.GGUF("the model", f)
	if err != nil {
		return err
	}
	c, err := config.Resolve(own, config.Source{Name: "--set", FromModel: true, Lookup: func(k config.Key) (string, bool) {
		i := slices.IndexFunc(keys, func(kv gguf.KeyValue) bool { return kv.Name == k.Name })
		if i < 0 {
			return "", false
		}
		return fmt.Sprint(keys[i].Value), true
	}})
	if err != nil {
		return err
	}
	return launch.Options{Config: c}.CheckPlanRows()
}
