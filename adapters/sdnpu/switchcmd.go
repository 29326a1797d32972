package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/bench"
	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/graphswap"
)

// switchFlags are the command's settings as typed.
type switchFlags struct {
	options          bench.SwitchOptions
	rows, logits     string
	plans            []string
	coordgen, asJSON bool
	execute          executeFlags
}

func newSwitchCommand() *cobra.Command {
	var f switchFlags
	cmd := &cobra.Command{
		Use:   "switch",
		Short: "Compare plans of graph switching on a phone's profile",
		Long: `Compare plans of graph switching on a phone's profile.

Each plan is simulated: when the prefill ends, when the last graph has been
exchanged, how much of that is exposed beyond a prefill on the long graphs
alone (negative where all is over sooner than that), what memory it takes, and
what that makes per token of output. Plans:
` + strings.Join(graphswap.PlanNames(), ", ") + `.
Each that switches is made with and without a spare slot for one block, or as
+spare or -spare behind its name says; with all, g2_only is also compared at
other widths. exact and exact_in_order are made for 4 blocks at most.

--execute needs a machine that keeps a phone's time. Where it does not, because
it is busy, a plan runs again on a phone 2, 4 and 8 times slower, and its row is
marked if that does not help. --pace virtual does without a clock.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	o := &f.options
	addDeviceFlags(cmd, &o.Device, &o.Model)
	flags.IntVar(&o.Prompt, "prompt", 1024, "tokens of the prompt")
	flags.IntVarP(&o.Output, "tokens", "n", 150, "tokens of the answer")
	alsoCalled(cmd, "output", "tokens")
	flags.IntSliceVar(&o.Blocks, "blocks", []int{2, 4, 7}, "numbers of blocks")
	flags.StringVar(&f.rows, "rows", "256,32", "rows of the long and of the short graph")
	flags.StringVar(&f.logits, "logits", "all", "rows of the prompt with logits: all or last")
	flags.StringSliceVar(&f.plans, "plan", []string{"all"}, "plans, or all; +spare or -spare behind a name takes one of its two rows")
	flags.Float64Var(&o.Accept, "accept", 1, "tokens that a decode step yields")
	flags.BoolVar(&o.Drafts, "drafts", false, "the head's graphs of an engine that drafts: as wide as the short graph and as the long one")
	flags.BoolVar(&f.coordgen, "coordgen", false, "the setting of CoordGen: graphs of 256 and 32 rows, 64 rows verified per step")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	f.execute.add(cmd)
	return cmd
}

// addDeviceFlags adds the flags that name a profile and a model in it.
func addDeviceFlags(cmd *cobra.Command, device, model *string) {
	cmd.Flags().StringVar(device, "device", "sd8gen2", "profile: "+strings.Join(graphswap.DeviceNames(), ", ")+"; name+variant for a variant")
	cmd.Flags().StringVar(model, "as", "qwen2.5-1.5b", "model of the profile")
}

func (f *switchFlags) run(cmd *cobra.Command) error {
	o := f.options
	if f.coordgen {
		f.rows, o.Verify = "256,32", 64
	}
	var err error
	if o.Rows1, o.Rows2, err = twoRows(f.rows); err != nil {
		return err
	}
	if o.AllLogits, err = allLogits(f.logits); err != nil {
		return err
	}
	if !(o.Accept >= 1 && o.Accept <= 1024) {
		return fmt.Errorf("--accept %v: 1 to 1024 wanted", o.Accept)
	}
	if o.Output < 1 || o.Output > 1<<20 {
		return fmt.Errorf("-n %d: 1 to %d wanted", o.Output, 1<<20)
	}
	if o.Plans = f.plans; len(f.plans) == 1 && f.plans[0] == "all" {
		o.Plans, o.Widths = graphswap.PlanNames(), true
	}
	if o.Execute, err = f.execute.executor(cmd.ErrOrStderr(), o.Device, o.Model, o.AllLogits, o.Drafts); err != nil {
		return err
	}
	if o.Execute == nil { // which tells of each plan itself
		o.Progress = counter(cmd.ErrOrStderr(), f.asJSON)
	}
	result, err := bench.RunSwitch(cmd.Context(), o)
	if err != nil {
		return err
	}
	if f.asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(result)
	} else {
		err = result.Table(cmd.OutOrStdout())
	}
	return errors.Join(err, notExecuted(result))
}

// notExecuted is the error of a comparison in which plans were to be executed
// and were not: the first of them stands for all.
func notExecuted(s *bench.Switch) error {
	n := s.NotExecuted()
	if n == 0 {
		return nil
	}
	i := slices.IndexFunc(s.Rows, func(r bench.SwitchRow) bool { return r.NotExecuted != "" })
	return fmt.Errorf("%d of %d rows were not executed: %s on %d blocks: %s", n, len(s.Rows), s.Rows[i].Plan, s.Rows[i].Blocks, s.Rows[i].NotExecuted)
}

func twoRows(text string) (long, short int, err error) {
	a, b, found := strings.Cut(text, ",")
	long, errLong := strconv.Atoi(strings.TrimSpace(a))
	short, errShort := strconv.Atoi(strings.TrimSpace(b))
	if !found || errLong != nil || errShort != nil {
		return 0, 0, fmt.Errorf("--rows %q: two numbers wanted, like 256,32", config.Short(text))
	}
	return long, short, nil
}

func allLogits(text string) (bool, error) {
	if text != "all" && text != "last" {
		return false, fmt.Errorf("--logits %q: all or last wanted", config.Short(text))
	}
	return text == "all", nil
}

// counter shows how many parts of a work are done: a bar on a terminal that
// does not also get JSON, else nothing.
func counter(w io.Writer, quiet bool) func(done, total int) {
	if quiet || !newBar(w).terminal {
		return nil
	}
	var b *progressbar.ProgressBar
	return func(done, total int) {
		if b == nil {
			b = progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionClearOnFinish())
		}
		_ = b.Set(done) // a terminal that cannot be written to shows nothing
	}
}
