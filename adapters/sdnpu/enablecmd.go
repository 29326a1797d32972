package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/enable"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/adapters/ollama"
	"github.com/sdnpu/sdnpu/adapters/selection"
	"github.com/sdnpu/sdnpu/adapters/variant"
	"github.com/sdnpu/sdnpu/backend/gguf"
)

// enableFlags holds the flags of `sdnpu enable` and `sdnpu disable`.
type enableFlags struct {
	address, name string
	set           []string
	list, json    bool
}

const addressUsage = "`address` of the running Ollama (default: OLLAMA_HOST, else 127.0.0.1:11434)"

func newEnableCommand() *cobra.Command {
	var f enableFlags
	cmd := &cobra.Command{
		Use:   "enable MODEL | enable --list",
		Short: "Make an NPU variant of a model of the running Ollama",
		Long: `Make a second name for a model of the running Ollama, under which the model runs on the NPU. The
weights are not copied, and the model itself stays as it is. The command compiles the model,
calibrates and checks it if the recipe needs a calibration, and sends a first short request. If
a call of this command is interrupted, the next call removes what the interrupted call has made.

Ollama must start this program: see sdnpu install. The keys for --set are those of sdnpu select.`,
		Example: "  sdnpu enable qwen3:1.7b              # then: ollama run qwen3:1.7b-npu\n  sdnpu enable qwen3:1.7b --name fast --set recipe=w8a16\n  sdnpu enable --list",
		Args:    cmdline.UpToOneArgument("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.list && len(args) == 0:
				return f.printList(cmd)
			case f.list || len(args) == 0:
				return errors.New("enable: want either a MODEL or --list")
			}
			return f.enable(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.address, "ollama", "", addressUsage)
	flags.StringVar(&f.name, "name", "", "name of the variant (default: the tag gets the suffix -npu)")
	flags.StringArrayVar(&f.set, "set", nil, "also set a `key=value`, such as --set recipe=w8; may be repeated")
	flags.BoolVar(&f.list, "list", false, "list the models of Ollama and whether they are NPU variants")
	flags.BoolVar(&f.json, "json", false, "with --list: print one JSON object")
	return cmd
}

func newDisableCommand() *cobra.Command {
	var f enableFlags
	cmd := &cobra.Command{
		Use:   "disable MODEL",
		Short: "Remove the NPU variant of a model from Ollama",
		Long: `Remove the variant that sdnpu enable made. MODEL names the variant or its base model. The base
model and its weights stay. The compiled images stay in the cache: see sdnpu cache clear.`,
		Example: "  sdnpu disable qwen3:1.7b",
		Args:    cmdline.OneArgument("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.running(cmd)
			if err != nil {
				return err
			}
			name, err := o.Disable(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("disable: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "removed %s\n", name)
			return nil
		},
	}
	cmd.Flags().StringVar(&f.address, "ollama", "", addressUsage)
	return cmd
}

// running returns the Ollama server that the flags or OLLAMA_HOST name.
func (f *enableFlags) running(cmd *cobra.Command) (enable.Ollama, error) {
	address, err := enable.ParseAddress(cmp.Or(f.address, os.Getenv("OLLAMA_HOST")))
	if err != nil {
		return enable.Ollama{}, err
	}
	journal, err := launch.CacheFolder("enable")
	if err != nil {
		return enable.Ollama{}, err
	}
	say := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
	return enable.Ollama{URL: address, Journal: journal, Say: say}, nil
}

func (f *enableFlags) printList(cmd *cobra.Command) error {
	o, err := f.running(cmd)
	if err != nil {
		return err
	}
	list, err := o.List(cmd.Context())
	if err != nil {
		return fmt.Errorf("enable: %w", err)
	}
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"models": list})
	}
	t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tNPU")
	for _, s := range list {
		fmt.Fprintf(t, "%s\t%s\n", s.Name, describe(s))
	}
	return t.Flush()
}

// describe returns a text that says whether a model is an NPU variant.
func describe(s enable.Status) string {
	switch {
	case s.Unfinished:
		return "unfinished: when the same user next runs sdnpu enable or sdnpu disable, this variant is removed"
	case s.Unknown != "":
		return "unknown: " + s.Unknown
	case !s.Variant:
		return "no"
	}
	text := "yes"
	if s.Base != "" {
		text += ", variant of " + s.Base
	}
	return strings.Join(append([]string{text}, s.Settings...), ", ")
}

func (f *enableFlags) enable(cmd *cobra.Command, model string) error {
	keys, notes, err := selection.Keys(f.set)
	if err != nil {
		return fmt.Errorf("enable: %w", err)
	}
	if keys[slices.IndexFunc(keys, func(kv gguf.KeyValue) bool { return kv.Name == config.Keys[0].Name })].Value != true {
		return fmt.Errorf("enable: --set enabled=false: want true; `sdnpu disable %s` removes a variant", model)
	}
	o, err := f.running(cmd)
	if err != nil {
		return err
	}
	for _, note := range notes {
		o.Say("note: %s", note)
	}
	stdout := cmd.OutOrStdout()
	if stdout == os.Stdout { // libraries must not print to the standard output, which holds the result
		if stdout, err = cmdline.TakeStdout(); err != nil {
			return err
		}
	}
	r := enable.Request{Model: model, Name: f.name, Adapter: func(path string) ([]byte, error) { return selection.Adapter(path, keys) }}
	if process, found := enable.FindProcess(o.URL); found && isOllama(process) {
		if err := checkRunner(process); err != nil {
			return fmt.Errorf("enable: %w", err)
		}
		o.RunnerKnown = true
		if process.Own {
			process.Adopt()
			r.Prepare = func(ctx context.Context, m enable.Model, adapter string) error {
				bar := launch.NewBar(cmd.ErrOrStderr())
				defer bar.Close()
				return variant.Preparation{
					Program: os.Args[0], Version: cmdline.Version(), Logger: cmdline.NewLogger(cmd.ErrOrStderr(), false), Progress: bar.Step, Say: o.Say,
				}.Run(ctx, m, adapter)
			}
		}
	}
	if r.Prepare == nil {
		o.Say("Ollama runs as another user or elsewhere: it compiles the model itself, and its log shows the progress")
	}
	name, err := o.Enable(cmd.Context(), r)
	if err != nil {
		return fmt.Errorf("enable: %w", err)
	}
	fmt.Fprintf(stdout, "%s runs on the NPU: ollama run %s\n", name, name)
	printPermission(stdout, keys)
	return nil
}

// isOllama reports whether a process runs Ollama itself. For a proxy that forwards requests
// to Ollama, isOllama returns false.
func isOllama(p enable.Process) bool {
	return strings.TrimSuffix(filepath.Base(p.Executable), ".exe") == "ollama"
}

// checkRunner returns an error if an Ollama does not start this program.
func checkRunner(p enable.Process) error {
	if p.Deleted {
		return fmt.Errorf("%w: the program %s of this Ollama was replaced since it started: start it again", enable.ErrOtherRunner, p.Executable)
	}
	h, err := ollama.Find(p.Executable)
	if err != nil {
		return err
	}
	if h.Runner == "" || !ollama.IsBuildOfThisProgram(h.Runner) {
		return fmt.Errorf("%w: %s starts %s: %s", enable.ErrOtherRunner, h.Executable, cmp.Or(h.Runner, "no llama-server"), enable.InstallRemedy)
	}
	return nil
}
