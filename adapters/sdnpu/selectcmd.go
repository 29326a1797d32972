package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/atomicfile"
	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/enable"
	"github.com/sdnpu/sdnpu/adapters/launch"
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
		Short: "Select a model for the NPU",
		Long: "Write the keys that make Ollama run a model on the NPU. With -o, copy the model and add the keys.\n" +
			"With --adapter, write a small file with only the keys, for the ADAPTER line of a Modelfile.\n\nKeys for --set:\n" + keyHelp(),
		Example: "  sdnpu select llama.gguf --adapter npu.gguf\n  sdnpu select llama.gguf -o llama-npu.gguf --set rows=128,8",
		Args:    cmdline.OneArgument("MODEL.gguf"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (out == "") == (adapter == "") {
				return errors.New("select: want either -o OUT.gguf or --adapter OUT.gguf")
			}
			keys, notes, err := selectKeys(set)
			if err != nil {
				return fmt.Errorf("select: %w", err)
			}
			if atomicfile.Same(args[0], out+adapter) {
				return fmt.Errorf("select: %s is the model to read: name another file", out+adapter)
			}
			for _, note := range notes {
				fmt.Fprintln(cmd.ErrOrStderr(), "note:", note)
			}
			if adapter != "" {
				err = writeAdapter(cmd.Context(), cmd.OutOrStdout(), args[0], adapter, keys)
			} else {
				err = writeSelected(cmd.Context(), cmd.OutOrStdout(), args[0], out, keys)
			}
			if err != nil {
				return fmt.Errorf("select: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "write a copy of the model with the keys")
	cmd.Flags().StringVar(&adapter, "adapter", "", "write an adapter file with the keys")
	cmd.Flags().StringArrayVar(&set, "set", nil, "also set a `key=value`, such as --set rows=128,8; may be repeated")
	return cmd
}

func keyHelp() string {
	var b strings.Builder
	for _, k := range config.Keys {
		fmt.Fprintf(&b, "  %-11s  %s", strings.TrimPrefix(k.Name, config.Prefix), k.Doc)
		if k.Default != "" {
			fmt.Fprintf(&b, " (default %s)", k.Default)
		}
		if k.Origins == config.UserOnly {
			fmt.Fprintf(&b, "; not for --set: only %s in the environment sets it", k.Variable())
		}
		b.WriteString("\n")
	}
	return b.String()
}

// selectKeys converts settings such as "rows=128,8" to keys. The key enabled, which
// selects the model for the NPU, is always added. A value of an earlier version is
// replaced by the present one, with a note.
func selectKeys(set []string) (keys []gguf.KeyValue, notes []string, err error) {
	keys = []gguf.KeyValue{{Name: config.Prefix + "enabled", Value: true}}
	for _, s := range set {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, nil, fmt.Errorf("--set %s: want key=value", config.Short(s))
		}
		key, err := config.Find(name)
		if err != nil {
			return nil, nil, err
		}
		if err := key.CheckModel(value); err != nil {
			return nil, nil, fmt.Errorf("--set %s: %w", config.Short(s), err)
		}
		if current := key.Current(value); current != value {
			notes = append(notes, fmt.Sprintf("%s = %s is a value of an earlier version: writing %s", key.Name, value, current))
			value = current
		}
		keys = slices.DeleteFunc(keys, func(kv gguf.KeyValue) bool { return kv.Name == key.Name })
		keys = append(keys, gguf.KeyValue{Name: key.Name, Value: typed(key, value)})
	}
	return keys, notes, nil
}

// typed converts the text of a key's value, which must have been checked, to the type
// of the key.
func typed(k config.Key, value string) any {
	switch k.Type {
	case "bool":
		return config.Bool(value)
	case "int":
		n, _ := strconv.ParseInt(value, 10, 32) // the conversion cannot fail, because Check has parsed the value
		return int32(n)
	}
	return value
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

// writeSelected copies the model's file and adds the keys.
func writeSelected(ctx context.Context, stdout io.Writer, from, out string, keys []gguf.KeyValue) error {
	f, err := openRunnable(from, keys)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := atomicfile.Write(ctx, out, permissions(from), func(w io.Writer) error { return f.WriteWith(w, keys) }); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "wrote %s\nModelfile line, for `ollama create NAME -f Modelfile`:\n  FROM %s\n", out, launch.Absolute(out))
	printPermission(stdout, keys)
	return nil
}

// writeAdapter writes an adapter file that contains only the keys.
func writeAdapter(ctx context.Context, stdout io.Writer, from, out string, keys []gguf.KeyValue) error {
	content, err := adapterFor(from, keys)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(ctx, out, permissions(from), func(w io.Writer) error { _, err := w.Write(content); return err }); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "wrote %s\nModelfile lines, for `ollama create NAME -f Modelfile`:\n  FROM %s\n  ADAPTER %s\n", out, launch.Absolute(from), launch.Absolute(out))
	printPermission(stdout, keys)
	return nil
}

// adapterFor returns the content of an adapter file for a model that can run with the
// keys. Ollama requires that an adapter is a GGUF of type adapter, and some readers
// require at least one tensor.
func adapterFor(path string, keys []gguf.KeyValue) ([]byte, error) {
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

// printPermission tells the user which permission a model needs so that it can keep
// answers on disk.
func printPermission(w io.Writer, keys []gguf.KeyValue) {
	for _, k := range keys {
		if name, ok := k.Value.(string); ok && k.Name == config.Prefix+"db" && name != "" {
			fmt.Fprintf(w, "answers are kept in the database %s only if SDNPU_DB=allow is set where `ollama serve` runs\n", name)
		}
	}
}

// permissions returns the file permissions of the model, so that no further users can
// read a selected copy.
func permissions(model string) os.FileMode {
	if info, err := os.Stat(model); err == nil {
		return info.Mode().Perm()
	}
	return 0o600
}
