package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/quant"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

func newSelectCommand() *cobra.Command {
	var out, adapter string
	var set []string
	cmd := &cobra.Command{
		Use:   "select MODEL.gguf (-o OUT.gguf | --adapter OUT.gguf)",
		Short: "Mark a model for the NPU, in a copy or in a small adapter file",
		Long: "Select writes the keys that make Ollama run a model on the NPU.\n\n" +
			"-o copies the model with the keys added; --adapter writes a small file with the\n" +
			"keys alone, for a Modelfile's ADAPTER line beside an untouched model.\n\nKeys for --set:\n" + keyHelp(),
		Example: "  sdnpu select llama.gguf --adapter npu.gguf\n  sdnpu select llama.gguf -o llama-npu.gguf --set rows=128,8",
		Args:    oneArgument("MODEL.gguf"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (out == "") == (adapter == "") {
				return errors.New("select: give either -o OUT.gguf or --adapter OUT.gguf")
			}
			keys, err := selectKeys(set)
			if err != nil {
				return err
			}
			if same(args[0], out+adapter) {
				return fmt.Errorf("select: %s is the model that is read and would be overwritten: name another file", out+adapter)
			}
			if adapter != "" {
				return writeAdapter(cmd.Context(), cmd.OutOrStdout(), args[0], adapter, keys)
			}
			return writeSelected(cmd.Context(), cmd.OutOrStdout(), args[0], out, keys)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "write a copy of the model with the keys")
	cmd.Flags().StringVar(&adapter, "adapter", "", "write an adapter file that carries the keys")
	cmd.Flags().StringArrayVar(&set, "set", nil, "also set a `key=value`, as in --set rows=128,8; may be given again")
	return cmd
}

// recipeUsage is the help of flags that name a recipe.
func recipeUsage() string {
	return "precision recipe: " + recipeNames() + "; with " + model.SmallCache + " behind them keys and values take 8 bits; sdnpu select --help explains them (default: the model's config)"
}

// recipeNames lists all recipes.
func recipeNames() string {
	names := make([]string, len(model.Recipes))
	for i, r := range model.Recipes {
		names[i] = r.Name
	}
	return strings.Join(names, ", ")
}

func keyHelp() string {
	var b strings.Builder
	for _, k := range config.Keys {
		fmt.Fprintf(&b, "  %-11s  %s", strings.TrimPrefix(k.Name, config.Prefix), k.Doc)
		if k.Default != "" {
			fmt.Fprintf(&b, " (default %s)", k.Default)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// selectKeys turns "rows=128,8" settings into keys; enabled is always set.
func selectKeys(set []string) ([]gguf.KeyValue, error) {
	keys := []gguf.KeyValue{{Name: config.Prefix + "enabled", Value: true}}
	for _, s := range set {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("select: --set %s: key=value wanted", config.Short(s))
		}
		key, err := config.Find(name)
		if err != nil {
			return nil, err
		}
		if err := key.Check(value); err != nil {
			return nil, fmt.Errorf("select: --set %s: %w", config.Short(s), err)
		}
		keys = slices.DeleteFunc(keys, func(kv gguf.KeyValue) bool { return kv.Name == key.Name })
		keys = append(keys, gguf.KeyValue{Name: key.Name, Value: typed(key, value)})
	}
	return keys, nil
}

// typed gives a checked value the type that its key is stored with.
func typed(k config.Key, value string) any {
	switch k.Type {
	case "bool":
		return config.Bool(value)
	case "int":
		n, _ := strconv.ParseInt(value, 10, 32) // Check has read it
		return int32(n)
	}
	return value
}

// openRunnable opens a model that we can run with the keys over its own: one that
// we cannot would fail when Ollama loads it, long after.
func openRunnable(path string, keys []gguf.KeyValue) (_ *gguf.File, err error) {
	f, err := openGGUF(path)
	if err != nil {
		return nil, fmt.Errorf("select: %w", err)
	}
	if _, err = model.Load(f); err == nil {
		_, err = tokenizer.New(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("select: %s cannot run on the NPU: %w", path, withModelRemedy(err)), f.Close())
	}
	if err := resolvable(f, keys); err != nil {
		return nil, errors.Join(fmt.Errorf("select: %w", err), f.Close())
	}
	return f, nil
}

// resolvable reports whether the keys agree with each other and with the model's
// own.
func resolvable(f *gguf.File, keys []gguf.KeyValue) error {
	own, err := config.GGUF("the model", f)
	if err != nil {
		return err
	}
	c, err := config.Resolve(own, config.Source{Name: "--set", Lookup: func(k config.Key) (string, bool) {
		i := slices.IndexFunc(keys, func(kv gguf.KeyValue) bool { return kv.Name == k.Name })
		if i < 0 {
			return "", false
		}
		return fmt.Sprint(keys[i].Value), true
	}})
	if err != nil {
		return err
	}
	return job{config: c}.planRows()
}

// writeSelected copies the model with keys added.
func writeSelected(ctx context.Context, stdout io.Writer, from, out string, keys []gguf.KeyValue) error {
	f, err := openRunnable(from, keys)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeFile(ctx, out, permissions(from), func(w io.Writer) error { return f.WriteWith(w, keys) }); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "wrote %s\nModelfile line, for `ollama create NAME -f Modelfile`:\n  FROM %s\n", out, absolute(out))
	return nil
}

// writeAdapter writes the keys alone. Ollama wants a GGUF of type adapter; the
// one tensor is there because some readers refuse a file with none.
func writeAdapter(ctx context.Context, stdout io.Writer, from, out string, keys []gguf.KeyValue) error {
	f, err := openRunnable(from, keys)
	if err != nil {
		return err
	}
	architecture := f.Architecture()
	if err := f.Close(); err != nil {
		return err
	}
	all := append([]gguf.KeyValue{
		{Name: "general.type", Value: "adapter"},
		{Name: "general.architecture", Value: architecture},
		{Name: "general.name", Value: "sdnpu selection"},
	}, keys...)
	tensors := []gguf.NewTensor{{Name: "sdnpu.mark", Type: quant.F32, Shape: []int{1}, Data: make([]byte, 4)}}
	if err := writeFile(ctx, out, permissions(from), func(w io.Writer) error { return gguf.Write(w, all, tensors) }); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "wrote %s\nModelfile lines, for `ollama create NAME -f Modelfile`:\n  FROM %s\n  ADAPTER %s\n", out, absolute(from), absolute(out))
	return nil
}

// permissions are those of the model: what may not be read by all does not
// become so by being selected.
func permissions(model string) os.FileMode {
	if info, err := os.Stat(model); err == nil {
		return info.Mode().Perm()
	}
	return 0o600
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
