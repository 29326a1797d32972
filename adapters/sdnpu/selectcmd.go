package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/atomicfile"
	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/adapters/selection"
	"github.com/sdnpu/sdnpu/backend/gguf"
)

func newSelectCommand() *cobra.Command {
	var out, adapter string
	var set []string
	cmd := &cobra.Command{
		Use:   "select MODEL.gguf (-o OUT.gguf | --adapter OUT.gguf)",
		Short: "Select a model for the NPU",
		Long: `Write the keys that make Ollama run a model on the NPU. With -o, write a copy of the model with
these keys. With --adapter, write a small file that holds only the keys, for the ADAPTER line of
a Modelfile.

Keys for --set:
` + keyHelp(),
		Example: "  sdnpu select llama.gguf --adapter npu.gguf\n  sdnpu select llama.gguf -o llama-npu.gguf --set rows=128,8",
		Args:    cmdline.OneArgument("MODEL.gguf"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (out == "") == (adapter == "") {
				return errors.New("select: want either -o OUT.gguf or --adapter OUT.gguf")
			}
			keys, notes, err := selection.Keys(set)
			if err != nil {
				return fmt.Errorf("select: %w", err)
			}
			if atomicfile.Same(args[0], out+adapter) {
				return fmt.Errorf("select: %s is the model to read: name another file", out+adapter)
			}
			for _, note := range notes {
				fmt.Fprintln(cmd.ErrOrStderr(), "note:", note)
			}
			if err := writeSelection(cmd, args[0], out, adapter, keys); err != nil {
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

// writeSelection writes the keys to an adapter file or to a copy of the model, and
// prints the lines of the Modelfile that use it.
func writeSelection(cmd *cobra.Command, model, out, adapter string, keys []gguf.KeyValue) error {
	stdout := cmd.OutOrStdout()
	if adapter != "" {
		if err := selection.WriteAdapter(cmd.Context(), model, adapter, keys); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "wrote %s\nModelfile lines, for `ollama create NAME -f Modelfile`:\n  FROM %s\n  ADAPTER %s\n", adapter, launch.Absolute(model), launch.Absolute(adapter))
	} else {
		if err := selection.WriteCopy(cmd.Context(), model, out, keys); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "wrote %s\nModelfile line, for `ollama create NAME -f Modelfile`:\n  FROM %s\n", out, launch.Absolute(out))
	}
	printPermission(stdout, keys)
	return nil
}

func keyHelp() string {
	var b strings.Builder
	for _, k := range config.Keys {
		fmt.Fprintf(&b, "  %-11s  %s", strings.TrimPrefix(k.Name, config.Prefix), k.Doc)
		if k.Default != "" {
			fmt.Fprintf(&b, " (default %s)", k.Default)
		}
		if k.Origins == config.UserOnly {
			fmt.Fprintf(&b, "; --set does not accept this key: set the variable %s in the environment", k.Variable())
		}
		b.WriteString("\n")
	}
	return b.String()
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
