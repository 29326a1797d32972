package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/bench"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/spec/replay"
)

func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what drafts and plans are worth",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newReplayCommand(), newGenerateCommand(), newSwitchCommand(), newAblationCommand())
	return cmd
}

// replayFlags are the command's settings as typed.
type replayFlags struct {
	tokenizer, draft, database string
	bound                      string
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
	flags.StringVar(&f.draft, "draft", "default", "off, default, paper, or terms joined by +: pld, sam, cal, ext, rec, db")
	flags.StringVar(&f.bound, "ext-bound", "", "replay draft extension as its lower bound (without it) or upper one (kept if it comes within 32 tokens)")
	flags.StringVar(&f.database, "database", "online", "off, online (outputs of earlier lines), or what is known from the start: a folder made by sdnpu db import, or a trace file, of which outputs count")
	flags.IntVar(&f.rows, "rows", 32, "rows of the verification graph, the last token's included")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
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
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
	}
	baselines, err := bench.Baselines(cmd.Context(), traces, f.rows)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d requests, --draft %s, database %s, %d rows\n", len(traces), f.draft, f.database, f.rows)
	return result.Table(cmd.OutOrStdout(), baselines)
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
var errScored = errors.New("--database: a database that holds the scored texts says nothing: name another one, or online")

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
