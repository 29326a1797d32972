package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/bench"
	"github.com/sdnpu/sdnpu/graphswap"
)

// sessionFlags are the command's settings as typed.
type sessionFlags struct {
	options bench.SessionOptions
	asJSON  bool
}

func newSessionCommand() *cobra.Command {
	var f sessionFlags
	cmd := &cobra.Command{
		Use:   "session TRACE.jsonl",
		Short: "Compare plans over a conversation, the chooser with the best of them",
		Long: `Compare plans over a conversation, the chooser with the best of them.

Each line of TRACE.jsonl is a turn: an object with prompt, the number of new
tokens, and output, the number of tokens answered; with idle_ms, for how long
nothing was asked before it, the chooser may use that time. Each plan stands in the
configuration (blocks, widths) that is best for it with hindsight; the first
row, auto, is the chooser, which knows no turn before it comes.`,
		Args: oneArgument("trace file"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	o := &f.options
	addDeviceFlags(cmd, &o.Device, &o.Model)
	flags.IntSliceVar(&o.Setting.Blocks, "blocks", []int{2, 4, 7}, "numbers of blocks to choose from")
	flags.IntSliceVar(&o.Setting.Rows1, "long", []int{128, 256}, "rows of long graphs to choose from")
	flags.IntSliceVar(&o.Setting.Rows2, "short", []int{8, 16, 32, 64}, "rows of short graphs to choose from")
	flags.IntSliceVar(&o.Setting.Verify, "verify", nil, "rows that a decode step may have in several passes, like 64 on graphs of 32 (default: no more than its graph has)")
	flags.IntVar(&o.Setting.Context, "context", 4096, "tokens that the cache has room for")
	flags.BoolVar(&o.Setting.Shared, "shared", false, "graphs were prepared together and share their weights")
	flags.Float64Var(&o.Setting.Accept, "accept", 1, "tokens per decode step that drafts approach with many rows")
	flags.Float64Var(&o.WindowGB, "window", 0, "GB of memory that a session may hold (default: the profile's)")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return cmd
}

func (f *sessionFlags) run(cmd *cobra.Command, name string) error {
	o := f.options
	if o.Setting.Context < 1 || o.Setting.Context > 1<<20 {
		return fmt.Errorf("--context %d: 1 to %d wanted", o.Setting.Context, 1<<20)
	}
	if !(o.Setting.Accept >= 1 && o.Setting.Accept <= 1024) {
		return fmt.Errorf("--accept %v: 1 to 1024 wanted", o.Setting.Accept)
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	turns, err := bench.ReadTurns(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i, t := range turns {
		if t.Prompt+t.Output > o.Setting.Context {
			return fmt.Errorf("--context %d: turn %d of %s alone has %d tokens: as many or more wanted", o.Setting.Context, i+1, name, t.Prompt+t.Output)
		}
	}
	o.Plans = graphswap.PlanNames()
	o.Progress = counter(cmd.ErrOrStderr(), f.asJSON)
	result, err := bench.RunSession(cmd.Context(), turns, o)
	if err != nil {
		return err
	}
	if f.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
	}
	return result.Table(cmd.OutOrStdout())
}
