package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/bench"
	"github.com/sdnpu/sdnpu/adapters/chat"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/graphswap"
)

// generateFlags are the command's settings as typed.
type generateFlags struct {
	model, library, rows, save, as string
	prompts, draft, cost           []string
	tokens, longest, items         int
	json, together                 bool
}

func newGenerateCommand() *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{
		Use:   "generate --prompts FILE[,FILE…] --model M.gguf --draft MODE[,MODE…]",
		Short: "Measure drafts with the model in the loop",
		Long: `Measure drafts with the model in the loop.

Each line of a prompt file is an object with task, id and prompt, a list of
{role, content}, which is written by the model's own chat template. Every mode
answers the same prompts, greedily, in the same order; its database begins empty.
Accept length is the mean number of tokens per pass; "loops cut" counts a text
only until it says eight tokens in a row again, "worst tenth" is that of the
requests with the lowest. Texts that differ from the first mode's are counted:
drafts must not change any. With the default rows every pass has 32, all used, and
without drafts one; with --cost each has as many as pay on that device, and its time
is modelled. --together asks the tasks in turns. What --save holds of an interrupted
run is not measured again; databases begin empty then, too.`,
		Example: "  sdnpu bench generate --prompts rag.jsonl --model smollm2.gguf --draft pld,default --items 10 --library emulator",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.prompts, "prompts", nil, "files of prompts (required)")
	flags.StringVar(&f.model, "model", "", "GGUF file (required)")
	flags.StringSliceVar(&f.draft, "draft", []string{"default"}, "modes to compare, each as: "+draftUsage)
	flags.StringVar(&f.library, "library", "", libraryUsage)
	flags.StringVar(&f.rows, "rows", "", "widths of the graphs in rows, widest first (default: 128,32, without drafts 128,1; with --cost 128,32,8,1)")
	flags.StringSliceVar(&f.cost, "cost", nil, "devices whose cost of passes decides over rows: "+strings.Join(graphswap.DeviceNames(), ", "))
	flags.StringVar(&f.as, "as", "qwen2.5-1.5b", "with --cost: the model whose passes are charged")
	flags.IntVarP(&f.tokens, "tokens", "n", 160, "tokens to generate at most")
	flags.IntVar(&f.longest, "longest", 1800, "leave out prompts of more tokens, and count them")
	flags.IntVar(&f.items, "items", 0, "answer so many prompts of each task, evenly spread (default: all)")
	flags.StringVar(&f.save, "save", "", "append every request, with the rows of each pass, to this file; requests that it holds are not made again")
	flags.BoolVar(&f.together, "together", false, "answer each prompt in every mode before the next one; all modes' models are open at once")
	flags.BoolVar(&f.json, "json", false, "print one JSON object; times are totals in milliseconds")
	for _, name := range []string{"prompts", "model"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag stands above
		}
	}
	return cmd
}

func (f *generateFlags) run(cmd *cobra.Command) (err error) {
	s, err := readSettings()
	if err != nil {
		return err
	}
	if f.library != "" {
		s.library = f.library
	}
	if err := f.check(); err != nil {
		return err
	}
	costs, err := f.passCosts()
	if err != nil {
		return err
	}
	stdout := cmd.OutOrStdout()
	if stdout == os.Stdout { // the results' alone, whatever a library prints
		if stdout, err = takeStdout(); err != nil {
			return err
		}
	}
	items, skipped, err := f.selectItems()
	if err != nil {
		return err
	}
	options := f.options(items, s)
	options.Progress = generateProgress(cmd.ErrOrStderr())
	measured, err := openMeasured(f.save, &options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, measured.close()) }()
	open := opener{costs: costs, settings: s, flags: f, longest: longestItem(items), stderr: cmd.ErrOrStderr()}
	options.Open = open.open
	list, failed := bench.Generate(cmd.Context(), options)
	if failed != nil {
		// What was measured before it failed is not lost.
		if list = bench.Whole(list, len(options.Settings)); len(list) == 0 {
			return failed
		}
	}
	result := bench.Summarize(list, skipped, costs)
	if f.json {
		return errors.Join(failed, json.NewEncoder(stdout).Encode(result))
	}
	fmt.Fprintln(stdout, options.Conditions)
	return errors.Join(failed, result.Table(stdout))
}

// options says what to generate of some items.
func (f *generateFlags) options(items []bench.Item, s settings) bench.GenerateOptions {
	o := bench.GenerateOptions{Items: items, Tokens: f.tokens, Together: f.together}
	if f.together {
		o.Items = bench.InTurns(items)
	}
	o.Conditions = fmt.Sprintf("%s, rows %s, at most %d tokens, %s", filepath.Base(f.model), f.rowsOf("default"), f.tokens, cmp.Or(s.library, "the installed library"))
	if len(f.cost) > 0 {
		o.Conditions += ", as " + f.as
	}
	for _, mode := range f.draft {
		for _, device := range f.devices() {
			o.Settings = append(o.Settings, bench.Setting{Mode: mode, Device: device})
		}
	}
	return o
}

// devices are those of --cost, or none in particular.
func (f *generateFlags) devices() []string {
	if len(f.cost) == 0 {
		return []string{""}
	}
	return f.cost
}

func (f *generateFlags) passCosts() (map[string]bench.PassCost, error) {
	costs := make(map[string]bench.PassCost)
	for _, device := range f.cost {
		cost, err := passCost(device, f.as)
		if err != nil {
			return nil, err
		}
		costs[device] = cost
	}
	return costs, nil
}

func (f *generateFlags) check() error {
	if f.tokens < 2 || f.longest < 1 || f.items < 0 {
		return fmt.Errorf("-n %d --longest %d --items %d: at least 2, 1 and 0 wanted", f.tokens, f.longest, f.items)
	}
	for _, mode := range f.draft {
		if _, err := draft.Parse(mode); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf are the widths of the graphs for a mode.
func (f *generateFlags) rowsOf(mode string) string {
	switch {
	case f.rows != "":
		return f.rows
	case len(f.cost) > 0:
		return "128,32,8,1"
	case mode == "off":
		return "128,1"
	}
	return "128,32"
}

func longestItem(items []bench.Item) int {
	n := 0
	for _, i := range items {
		n = max(n, len(i.IDs))
	}
	return n
}

// selectItems reads the prompts and encodes them as chats of the model.
func (f *generateFlags) selectItems() ([]bench.Item, map[string]int, error) {
	var prompts []bench.Prompt
	for _, name := range f.prompts {
		file, err := os.Open(name)
		if err != nil {
			return nil, nil, err
		}
		list, err := bench.ReadPrompts(file, strings.TrimSuffix(filepath.Base(name), ".jsonl"))
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		prompts = append(prompts, list...)
	}
	file, err := gguf.OpenKeys(f.model)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	encode, err := chatEncoder(file)
	if err != nil {
		return nil, nil, err
	}
	return bench.Select(prompts, encode, f.longest, f.items)
}

// chatEncoder writes and encodes chats as the model wants them.
func chatEncoder(file *gguf.File) (func([]chat.Message) ([]int32, error), error) {
	tok, err := tokenizer.New(file)
	if err != nil {
		return nil, err
	}
	source, err := file.Str("tokenizer.chat_template", "")
	if err != nil {
		return nil, err
	}
	bos := string(tok.PieceSpecial(tok.BOS()))
	template, err := chat.New(source, bos, string(tok.PieceSpecial(tok.EOS())))
	if errors.Is(err, chat.ErrNoTemplate) {
		err = fmt.Errorf("%s: %w: the prompts are chats: take a chat (instruct) model, whose GGUF has tokenizer.chat_template; sdnpu bench replay scores recorded texts without a model", file.Path(), err)
	}
	if err != nil {
		return nil, err
	}
	return func(messages []chat.Message) ([]int32, error) {
		text, err := template.Render(messages)
		if err != nil {
			return nil, err
		}
		written := bos != "" && strings.HasPrefix(text, bos) // by the template itself
		return tok.Encode(text, tokenizer.EncodeOptions{AddSpecial: !written, ParseSpecial: true})
	}, nil
}

// opener loads the model for each setting.
type opener struct {
	settings settings
	costs    map[string]bench.PassCost
	flags    *generateFlags
	longest  int // prompt, in tokens
	stderr   io.Writer
}

func (o *opener) open(ctx context.Context, s bench.Setting) (bench.Generator, error) {
	c, err := resolveConfig(o.flags.model, map[string]string{"sdnpu.rows": o.flags.rowsOf(s.Mode), "sdnpu.draft": s.Mode, "sdnpu.calibration": "auto", "sdnpu.extension": "auto"})
	if err != nil {
		return nil, err
	}
	context, err := roundContext(o.flags.model, o.longest+o.flags.tokens)
	if err != nil {
		return nil, err
	}
	c.Database = "" // what other requests left there would be measured, too
	j := job{
		path: o.flags.model, config: c, context: context, sequences: 1,
		logger: newLogger(o.stderr, false), threadTime: threadTime,
	}
	if c.Draft.Calibration { // whether it pays here says nothing of a phone
		j.config.Calibration = "on"
	}
	if cost := o.costs[s.Device]; cost != nil {
		j.cost = func(rows int) time.Duration { return time.Duration(cost(rows) * float64(time.Millisecond)) }
	}
	bar := newBar(o.stderr)
	j.progress = bar.step
	l, err := o.settings.load(ctx, os.Args[0], j)
	bar.close()
	if err != nil {
		return nil, err
	}
	return generator{l.engine, l}, nil
}

// shortContext is the shortest context of a measurement.
const shortContext = 64

// roundContext is a context that holds so many tokens and that other measurements
// have too: each length is a set of images, which stay in the cache. More than
// the model was made for is left to the engine to refuse.
func roundContext(path string, tokens int) (_ int, err error) {
	file, err := gguf.OpenKeys(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	made, err := file.ArchUint("context_length", 0)
	if err != nil {
		return 0, err
	}
	n := shortContext
	for n < tokens {
		n *= 2
	}
	return min(n, max(int(made), tokens)), nil
}

// generator is a loaded model's engine.
type generator struct {
	*engine.Engine
	loaded *loaded
}

func (g generator) Close() error { return g.loaded.Close() }

// generateProgress shows a bar on a terminal, else a line now and then.
func generateProgress(w io.Writer) func(done, total int, s bench.Setting, task string) {
	b := newBar(w)
	var shown *progressbar.ProgressBar
	var last time.Time
	return func(done, total int, s bench.Setting, task string) {
		if b.terminal {
			if shown == nil {
				shown = progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
			}
			shown.Describe(s.Mode + ", " + task)
			_ = shown.Set(done) // a terminal that cannot be written to shows nothing
			return
		}
		if time.Since(last) < lineEvery && done < total {
			return
		}
		last = time.Now()
		took := time.Since(b.began)
		left := time.Duration(float64(took) / float64(done) * float64(total-done))
		fmt.Fprintf(w, "%s, %s: %d of %d requests, about %v left\n", s.Mode, task, done, total, left.Round(time.Second))
	}
}
