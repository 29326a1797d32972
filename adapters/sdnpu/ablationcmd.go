package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/bench"
	"github.com/sdnpu/sdnpu/adapters/config"
)

// ablationFlags are the command's settings as typed.
type ablationFlags struct {
	options     bench.AblationOptions
	model, from string
	accept      map[string]string
	asJSON      bool
}

func newAblationCommand() *cobra.Command {
	var f ablationFlags
	cmd := &cobra.Command{
		Use:   "ablation",
		Short: "What switching and drafts are worth per token, beside the published table",
		Long: `What switching and drafts are worth per token, beside the published table.

NPU loads all graphs after the prefill and decodes token by token; +G switches
them by the planner; +SD verifies drafts; ours has all of our drafts. Times are
modelled on the profile. How many tokens a step yields is forced by --accept, or
read from a real drafter's report by --from: what "sdnpu run --json" or "sdnpu
bench replay --json" prints, or an object with one under "sd" and "ours".`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	addDeviceFlags(cmd, &f.options.Device, &f.model)
	flags.Lookup("as").DefValue, f.model = "all", "all"
	flags.Lookup("as").Usage = "model of the profile, or all"
	flags.IntVar(&f.options.Prompt, "prompt", 1024, "tokens of the prompt")
	flags.IntVarP(&f.options.Output, "tokens", "n", 150, "tokens of the answer")
	alsoCalled(cmd, "output", "tokens")
	flags.StringToStringVar(&f.accept, "accept", nil, "tokens that a step is forced to yield, `sd=N,ours=N`, as in sd=2.50,ours=4.21")
	flags.Lookup("accept").DefValue = "" // which would be shown as a list of none
	flags.StringVar(&f.from, "from", "", "report to read tokens per step from")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	cmd.MarkFlagsOneRequired("accept", "from")
	cmd.MarkFlagsMutuallyExclusive("accept", "from")
	return cmd
}

func (f *ablationFlags) run(cmd *cobra.Command) error {
	o := f.options
	if f.model != "all" {
		o.Models = []string{f.model}
	}
	if o.Output < 1 || o.Output > 1<<20 {
		return fmt.Errorf("-n %d: 1 to %d wanted", o.Output, 1<<20)
	}
	if err := f.tokens(&o); err != nil {
		return err
	}
	result, err := bench.RunAblation(cmd.Context(), o)
	if err != nil {
		return err
	}
	if f.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
	}
	return result.Table(cmd.OutOrStdout())
}

// tokens fills in the tokens per step.
func (f *ablationFlags) tokens(o *bench.AblationOptions) error {
	if f.from != "" {
		file, err := os.Open(f.from)
		if err != nil {
			return err
		}
		defer file.Close()
		o.Source = "from " + f.from
		if o.SD, o.Ours, err = bench.ReadAccept(file); err != nil {
			return fmt.Errorf("%s: %w", f.from, err)
		}
		return nil
	}
	o.Source = "forced"
	for name, text := range f.accept {
		var value float64
		if _, err := fmt.Sscanf(text, "%g", &value); err != nil || !(value >= 1 && value <= 1024) {
			return fmt.Errorf("--accept %s=%s: a number from 1 to 1024 wanted", config.Short(name), config.Short(text))
		}
		switch name {
		case "sd":
			o.SD = value
		case "ours":
			o.Ours = value
		default:
			return fmt.Errorf("--accept %s: sd and ours wanted", config.Short(name))
		}
	}
	if o.SD == 0 || o.Ours == 0 {
		return errors.New("--accept: both sd and ours wanted, like sd=2.50,ours=4.21")
	}
	return nil
}
