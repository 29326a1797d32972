package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/bench"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/spec/replay"
)

func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what drafts and plans are worth",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newReplayCommand(), newGenerateCommand(), newSwitchCommand(), newSessionCommand(), newAblationCommand(), newRegimesCommand())
	return cmd
}

// replayFlags are the command's settings as typed.
type replayFlags struct {
	tokenizer, draft, database string
	bound, as                  string
	cost                       []string
	widths                     []int
	rows                       int
	json                       bool
}

func newReplayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay TRACES.jsonl",
		Short: "Score drafts on recorded texts, exactly and without a model",
		Long: `Score drafts on recorded texts, exactly and without a model.

Each line of TRACES.jsonl is an object with task, prompt_ids and output_ids, or
with prompt (or system and messages) and output as text, which --tokenizer
encodes; prompt_topk and output_topk may hold the model's likeliest next tokens.
MAT is the mean number of tokens per step through the model. Draft extension (ext)
needs the model: --ext-bound replays the bounds of what it can give. What rec learns
from rejected rows needs it, too, and is not in the score.`,
		Args: oneArgument("trace file"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.tokenizer, "tokenizer", "", "GGUF with the vocabulary of traces that are text")
	flags.StringVar(&f.draft, "draft", "default", draftUsage)
	flags.StringVar(&f.bound, "ext-bound", "", "replay draft extension as its lower bound (without it) or upper one (kept if it comes within 32 tokens): lower or upper (default: ext is refused)")
	flags.StringVar(&f.database, "db", "online", "off, online (outputs of earlier lines), or what is known from the start: a folder made by sdnpu db import, or a trace file, of which outputs count")
	flags.StringSliceVar(&f.cost, "cost", nil, "also model the time on these devices, rows chosen by their cost: "+strings.Join(graphswap.DeviceNames(), ", "))
	flags.StringVar(&f.as, "as", "qwen2.5-1.5b", "with --cost: the model whose passes are charged")
	flags.IntSliceVar(&f.widths, "widths", []int{1, 8, 32}, "with --cost: rows of the graphs to choose from")
	flags.IntVar(&f.rows, "rows", 32, "rows of the verification graph, the last token's included")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	alsoCalled(cmd, "database", "db")
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, file string) error {
	mode, err := draft.Parse(f.draft)
	if err != nil {
		return err
	}
	if f.rows < 1 || f.rows > 1024 {
		return fmt.Errorf("--rows %d: 1 to 1024 wanted", f.rows)
	}
	bound, err := bench.ParseBound(f.bound)
	if err != nil {
		return err
	}
	options := bench.ReplayOptions{Extension: bound, Mode: mode, Rows: f.rows, Online: f.database == "online"}
	if f.database == "off" {
		options.Mode.Database = false
	}
	tok, err := f.openTokenizer()
	if err != nil {
		return err
	}
	traces, err := readTraces(file, tok)
	if err != nil {
		return err
	}
	if f.database != "off" && !options.Online {
		done, err := f.known(file, traces, tok, &options)
		if err != nil {
			return err
		}
		defer done()
	}
	p := newBar(cmd.ErrOrStderr())
	if p.terminal && !f.json {
		b := progressbar.NewOptions(len(traces), progressbar.OptionSetWriter(cmd.ErrOrStderr()), progressbar.OptionClearOnFinish())
		options.Progress = func(done, _ int) { _ = b.Set(done) }
	}
	result, err := bench.RunReplay(cmd.Context(), traces, options)
	if err != nil {
		return err
	}
	modelled, err := f.modelled(cmd.Context(), traces, options)
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
			*bench.Replay
			Modelled []bench.Run `json:"modelled,omitempty"`
		}{result, modelled.Runs})
	}
	baselines, err := bench.Baselines(cmd.Context(), traces, f.rows)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d requests, --draft %s, database %s, %d rows\n", len(traces), f.draft, f.database, f.rows)
	if err := result.Table(cmd.OutOrStdout(), baselines); err != nil {
		return err
	}
	return modelled.ModelledTable(cmd.OutOrStdout())
}

// modelled replays with the rows that pay on each device.
func (f *replayFlags) modelled(ctx context.Context, traces []replay.Trace, o bench.ReplayOptions) (*bench.Generated, error) {
	slices.Sort(f.widths)
	if len(f.widths) == 0 || f.widths[0] < 1 || f.widths[len(f.widths)-1] > 1024 {
		return nil, fmt.Errorf("--widths %v: 1 to 1024 wanted", f.widths)
	}
	var list []bench.Measured
	costs := make(map[string]bench.PassCost)
	for _, device := range f.cost {
		cost, err := passCost(device, f.as)
		if err != nil {
			return nil, err
		}
		costs[device] = cost
		requests, err := bench.ReplayCost(ctx, traces, o, device, bench.Graphs{Widths: slices.Compact(f.widths), Cost: cost})
		if err != nil {
			return nil, err
		}
		list = append(list, requests...)
	}
	return bench.Summarize(list, nil, costs), nil
}

// costContext is the context at which passes are charged, and costBlocks in how
// many parts a model is.
const costContext, costBlocks = 1024, 4

// passCost is what a pass costs on a device, logits of all rows included.
func passCost(device, model string) (bench.PassCost, error) {
	profile, err := graphswap.Device(device)
	if err != nil {
		return nil, err
	}
	cost, err := profile.Cost(model)
	if err != nil {
		return nil, err
	}
	return func(rows int) float64 { return cost.Pass(rows, costContext, costBlocks, rows) }, nil
}

// openTokenizer reads the vocabulary; nil without one.
func (f *replayFlags) openTokenizer() (*tokenizer.Tokenizer, error) {
	if f.tokenizer == "" {
		return nil, nil
	}
	return readTokenizer(f.tokenizer)
}

// known lets the replay begin with a database on disk or the texts of another
// trace file. done is to be called when it is over.
func (f *replayFlags) known(file string, traces []replay.Trace, tok *tokenizer.Tokenizer, options *bench.ReplayOptions) (done func(), err error) {
	if info, err := os.Stat(f.database); err == nil && info.IsDir() {
		db, err := openKnown(f.database, traces)
		if err != nil {
			return nil, withRemedy(err, f.database)
		}
		options.Database = draft.OnDisk(db, slog.New(slog.DiscardHandler))
		return func() { _ = db.Close() }, nil // it was only read
	}
	if err := differ(file, f.database); err != nil {
		return nil, err
	}
	options.Corpus, err = readTraces(f.database, tok)
	return func() {}, err
}

func readTraces(name string, tok *tokenizer.Tokenizer) ([]replay.Trace, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	traces, err := bench.ReadTraces(file, tok)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return traces, nil
}

// errScored is returned for a database made of the very texts that are scored:
// it would double the score and mean nothing.
var errScored = errors.New("--db: a database that holds the scored texts says nothing: name another one, or online")

// differ refuses the scored file as database.
func differ(traces, database string) error {
	a, err := os.Stat(traces)
	if err != nil {
		return err
	}
	b, err := os.Stat(database)
	if err != nil {
		return err
	}
	if os.SameFile(a, b) {
		return errScored
	}
	return nil
}
