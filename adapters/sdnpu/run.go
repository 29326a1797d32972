package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/jsonfault"
	"github.com/sdnpu/sdnpu/adapters/llamaserver"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/sampler"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// runFlags are the flags of `sdnpu run`.
type runFlags struct {
	model, prompt, promptIDs, library string
	recipe, rows, draft, plan, db     string
	timeline, exact                   string
	tokens, context, blocks           int
	temperature                       float32
	seed                              int64
	json, verbose                     bool
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:     "run MODEL.gguf [--prompt TEXT | --prompt-ids FILE]",
		Short:   "Run a model once, without Ollama",
		Example: "  sdnpu run stories260K-f16.gguf --prompt 'One day' --library emulator",
		Args:    f.takeModel,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "", "GGUF file, where it is not the argument")
	flags.StringVar(&f.prompt, "prompt", "", "prompt as text; control tokens may be spelled out (default: empty, the model begins)")
	flags.StringVar(&f.promptIDs, "prompt-ids", "", "`file` with the prompt as a JSON array of token ids")
	flags.IntVarP(&f.tokens, "tokens", "n", 128, "tokens to generate at most; -1: until the context is full")
	flags.IntVar(&f.context, "context", 0, contextUsage)
	flags.Float32Var(&f.temperature, "temperature", 0, "how freely tokens are drawn; 0 takes the likeliest (default 0)")
	flags.Int64Var(&f.seed, "seed", 0, "seed of the draws; -1 for a random one (default 0)")
	flags.StringVar(&f.library, "library", "", libraryUsage)
	flags.StringVar(&f.recipe, "recipe", "", recipeUsage())
	flags.StringVar(&f.draft, "draft", "", draftUsage+" (default: the model's config)")
	flags.StringVar(&f.db, "db", "", "folder that keeps answers for later drafts; see sdnpu db (default: the model's config, else memory)")
	flags.StringVar(&f.rows, "rows", "", rowsUsage)
	flags.StringVar(&f.plan, "plan", "", "which graphs are in the device when: "+strings.Join(engine.Plans, ", ")+"; +spare or -spare behind those that exchange graphs (default: the model's config)")
	flags.StringVar(&f.exact, "exact", "", "compute each token of the answer on one width, the narrowest of --rows: true or false (default: the model's config)")
	flags.Lookup("exact").NoOptDefVal = "true"
	flags.IntVar(&f.blocks, "blocks", 0, blocksUsage)
	flags.BoolVar(&f.json, "json", false, "print one JSON object with text, tokens, times and device")
	flags.StringVar(&f.timeline, "timeline", "", "`file` for what was done when, for sdnpu timeline")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "also log what the QNN library itself says")
	cmd.MarkFlagsMutuallyExclusive("prompt", "prompt-ids")
	return cmd
}

// takeModel takes the model as an argument or by --model.
func (f *runFlags) takeModel(_ *cobra.Command, args []string) error {
	switch {
	case len(args) > 1 || len(args) == 1 && f.model != "":
		return fmt.Errorf("run takes one MODEL.gguf, and %q is another argument: a prompt is given by --prompt TEXT", config.Short(args[len(args)-1]))
	case len(args) == 1:
		f.model = args[0]
	}
	if f.model == "" {
		return errors.New("run: a MODEL.gguf wanted")
	}
	return nil
}

// result is what --json prints. Times are milliseconds.
type result struct {
	// Clock is whose clock times are of, but for those of the plan.
	Clock string `json:"clock"`

	PromptIDs []int32           `json:"prompt_ids"`
	OutputIDs []int32           `json:"output_ids"`
	Text      string            `json:"text"`
	Stop      engine.StopReason `json:"stop"`
	// ContextFull tells that the limit was the context's and not -n.
	ContextFull bool    `json:"context_full"`
	Recipe      string  `json:"recipe"`
	Widths      []int   `json:"widths"`
	Blocks      int     `json:"blocks"`
	Context     int     `json:"context"` // of the graphs at the end
	Grown       int     `json:"grown"`   // how often they were exchanged for longer ones
	GrowthMS    float64 `json:"growth_ms"`
	Steps       int     `json:"steps"`
	// Draft is the mode of speculative decoding, AcceptLength the mean of output
	// tokens per pass, DraftMS the time spent on drafts. DecodeSteps are the passes
	// behind the prompt, which Steps counts too, and of the drafted rows that ran in
	// them some were accepted and the rest wasted: the accept length is
	// 1 + accepted_rows/decode_steps.
	Draft        string  `json:"draft"`
	AcceptLength float64 `json:"accept_length"`
	DecodeSteps  int     `json:"decode_steps"`
	DraftedRows  int     `json:"drafted_rows"`
	AcceptedRows int     `json:"accepted_rows"`
	WastedRows   int     `json:"wasted_rows"`
	DraftMS      float64 `json:"draft_ms"`
	// Rows are those of all passes, the prompt's too.
	Rows struct {
		Valid   int `json:"valid"`
		Wasted  int `json:"wasted"`
		Padding int `json:"padding"`
	} `json:"rows"`
	// Lossless is what drafts can change of the text.
	Lossless llamaserver.Lossless `json:"lossless"`
	// Plan is which graphs were in the device when: blocks exchanged, loads beyond
	// the end of the prompt without any, the NPU's wait for loads, all of them zero
	// where graphs stay, and the most memory that graphs took.
	Plan struct {
		Name string `json:"name"`
		// Clock is whose clock its times are of: host, or the emulator's virtual or
		// wall*SCALE, see [engine.Clock].
		Clock        string  `json:"clock"`
		Reason       string  `json:"reason,omitempty"`
		Spare        bool    `json:"spare"`
		Switches     int     `json:"switches"`
		SwitchEndMS  float64 `json:"switch_end_ms"`
		ExposedMS    float64 `json:"exposed_ms"`
		StallMS      float64 `json:"stall_ms"`
		PeakBytes    int64   `json:"peak_bytes"`
		LoadedBytes  int64   `json:"loaded_bytes"`
		FailedReason string  `json:"failed,omitempty"`
	} `json:"plan"`
	PrefillMS    float64 `json:"prefill_ms"`
	FirstTokenMS float64 `json:"first_token_ms"`
	DecodeMS     float64 `json:"decode_ms"`
	LoadMS       float64 `json:"load_ms"`
	// The processor time of all cores from the prompt on; for each output token.
	CPUMS         float64 `json:"cpu_ms"`
	CPUPerTokenMS float64 `json:"cpu_ms_per_token"`
	Lanes         struct {
		NPU int64 `json:"npu_ops"`
		CPU int64 `json:"cpu_ops"`
	} `json:"lanes"`
	Device struct {
		Provider string `json:"provider"`
		BuildID  string `json:"build_id"`
		SoC      string `json:"soc"`
		// Emulated is whose time the emulator's calls take, null for a device
		// that takes its own.
		Emulated *emulatedPace `json:"emulated"`
	} `json:"device"`
	Memory struct {
		Resident int64 `json:"resident_bytes"`
		Peak     int64 `json:"peak_bytes"`
	} `json:"memory"`
}

func (f *runFlags) run(cmd *cobra.Command) (err error) {
	ctx := cmd.Context()
	if err := f.check(); err != nil {
		return err
	}
	s, err := readSettings()
	if err != nil {
		return err
	}
	if f.library != "" {
		s.library = f.library
	}
	c, err := f.resolve()
	if err != nil {
		return err
	}
	stdout := cmd.OutOrStdout()
	if stdout == os.Stdout { // the text's alone, whatever a library prints
		if stdout, err = takeStdout(); err != nil {
			return err
		}
	}
	for _, slip := range lookAtVariables(environmentNames()) {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+slip.remedy)
	}
	begin := time.Now()
	bar := newBar(cmd.ErrOrStderr())
	l, err := s.load(ctx, os.Args[0], job{
		path: f.model, config: c, context: f.context, sequences: 1, prompt: f.promptOf,
		logger: newLogger(cmd.ErrOrStderr(), f.verbose), progress: bar.step, foretell: f.timeline != "",
	})
	bar.close()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	load := time.Since(begin)
	return f.generate(ctx, stdout, cmd.ErrOrStderr(), l, load)
}

// check refuses numbers that mean nothing.
func (f *runFlags) check() error {
	switch {
	case !(f.temperature >= 0) || math.IsInf(float64(f.temperature), 0):
		return fmt.Errorf("--temperature %v: 0 or more wanted", f.temperature)
	case f.tokens < -1:
		return fmt.Errorf("-n %d: -1 (until the context is full) or more wanted", f.tokens)
	case f.seed < -1:
		return fmt.Errorf("--seed %d: 0 or more wanted, or -1 for a random one", f.seed)
	case f.context < 0:
		return fmt.Errorf("--context %d: 1 or more wanted, or 0 for the default", f.context)
	}
	if err := checkWritable(f.timeline); err != nil {
		return fmt.Errorf("--timeline: %w", err)
	}
	return nil
}

// resolve reads the model's config; flags and environment win over it. The
// model needs no selection: naming it here is one.
func (f *runFlags) resolve() (config.Config, error) {
	if f.db != "" { // as the shell means it
		path, err := filepath.Abs(f.db)
		if err != nil {
			return config.Config{}, err
		}
		f.db = path
	}
	return resolveConfig(f.model, map[string]string{"sdnpu.recipe": f.recipe, "sdnpu.rows": f.rows, "sdnpu.blocks": countText(f.blocks), "sdnpu.draft": f.draft, "sdnpu.plan": f.plan, "sdnpu.exact": f.exact, "sdnpu.db": f.db})
}

// resolveConfig reads a model's config with the environment and then flags over
// it; empty flags are not set.
func resolveConfig(path string, flags map[string]string) (config.Config, error) {
	source, err := fileSource("the model", path)
	switch {
	case errors.Is(err, config.ErrSetting):
		return config.Config{}, err
	case err != nil:
		return config.Config{}, withModelRemedy(err)
	}
	return config.Resolve(source, config.Environment(os.LookupEnv), config.Source{Name: "the flags", Lookup: func(k config.Key) (string, bool) {
		return flags[k.Name], flags[k.Name] != ""
	}})
}

// countText is a flag's number as a key's value; 0 is not set.
func countText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// promptOf is the prompt, from a file of tokens or a text.
func (f *runFlags) promptOf(t *tokenizer.Tokenizer) ([]int32, error) {
	if f.promptIDs == "" {
		return t.Encode(f.prompt, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
	}
	raw, err := os.ReadFile(f.promptIDs)
	if err != nil {
		return nil, err
	}
	var ids []int32
	if err := jsonfault.Unmarshal(raw, &ids); err != nil {
		return nil, fmt.Errorf("%s: a JSON array of token ids wanted: %w", f.promptIDs, err)
	}
	return ids, nil
}

// generate streams the text to stdout and what it cost to stderr, or prints one
// object.
func (f *runFlags) generate(ctx context.Context, stdout, stderr io.Writer, l *loaded, load time.Duration) error {
	text, seed := "", uint64(f.seed)
	if f.seed < 0 {
		seed = rand.Uint64()
	}
	report, err := l.engine.Generate(ctx, engine.Request{
		Prompt: l.prompt, MaxTokens: f.tokens, Sampling: sampler.Options{Temperature: f.temperature, Seed: seed},
	}, func(p engine.Piece) error {
		text += p.Text
		if f.json {
			return nil
		}
		_, err := io.WriteString(stdout, p.Text)
		return err
	})
	if f.timeline != "" && report.PromptTokens > 0 { // what failed half way is worth a look, too
		err = errors.Join(err, writeTimeline(context.WithoutCancel(ctx), f.timeline, f.model, l, report))
	}
	if err != nil {
		if text != "" && !f.json { // the reason begins a line of its own
			fmt.Fprintln(stdout)
		}
		return err
	}
	if f.json {
		r := l.result(report, text, load)
		r.ContextFull = f.contextFull(report)
		return json.NewEncoder(stdout).Encode(r)
	}
	fmt.Fprintln(stdout)
	if report.Draft != (draft.Mode{}).String() {
		fmt.Fprintf(stderr, "\ndrafts (%s): %.2f tokens per pass, %d of %d drafted rows accepted", report.Draft, report.AcceptLength(), report.AcceptedRows, report.DraftedRows)
	}
	if c := report.Calibration; c.Rows == 0 && c.Cost > 0 {
		fmt.Fprintf(stderr, "\nthe prompt was not calibrated: the head's rows would take %v, and save %v", c.Cost.Round(time.Millisecond), c.Gain.Round(time.Millisecond))
	}
	if f.contextFull(report) {
		fmt.Fprintf(stderr, "\nthe context of %d tokens is full, prompt included, so the text ends here: %s", report.Context, roomRemedy(report.Context, l.madeFor))
	}
	fmt.Fprintf(stderr, "\n%d prompt tokens in %v, %d tokens in %v (%.1f tokens/s); load %v; processor %v; operators: NPU %d, CPU %d\n%s\n",
		report.PromptTokens, report.Prefill.Round(time.Millisecond), report.OutputTokens, report.Decode.Round(time.Millisecond),
		rate(report), load.Round(time.Millisecond), processorText(report), report.Ops[backend.NPU], report.Ops[backend.CPU], describe(l.device.Capabilities()))
	return nil
}

// roomRemedy says how a text that a context does not hold finds room.
func roomRemedy(context, madeFor int) string {
	if context < madeFor {
		return fmt.Sprintf("--context takes up to %d, what the model was made for", madeFor)
	}
	return "the model was made for no more, so give a shorter prompt, ask for fewer tokens, or take a model with a longer context"
}

// contextFull tells that a text ended for want of room, before -n was reached.
func (f *runFlags) contextFull(r engine.Report) bool {
	return r.Stop == engine.StopLimit && (f.tokens < 0 || r.OutputTokens < f.tokens)
}

// processorText is what the processors took for each token, or in all where
// there is none.
func processorText(r engine.Report) string {
	if r.OutputTokens == 0 {
		return r.Processor.Round(10*time.Microsecond).String() + " in all"
	}
	return r.ProcessorPerToken().Round(10*time.Microsecond).String() + " per token"
}

// rate is tokens per second after the first one, which prefill gives.
func rate(r engine.Report) float64 {
	if r.OutputTokens < 2 || r.Decode <= 0 {
		return 0
	}
	return float64(r.OutputTokens-1) / r.Decode.Seconds()
}

func (l *loaded) result(report engine.Report, text string, load time.Duration) result {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	c, m := l.device.Capabilities(), l.engine.Memory()
	r := result{
		Clock: engine.Clock{}.String(), PromptIDs: l.prompt, OutputIDs: report.Output, Text: text, Stop: report.Stop, Steps: report.Steps,
		Recipe: report.Recipe, Widths: report.Widths, Blocks: report.Blocks,
		PrefillMS: ms(report.Prefill), FirstTokenMS: ms(report.FirstToken), DecodeMS: ms(report.Decode), LoadMS: ms(load),
	}
	r.CPUMS, r.CPUPerTokenMS = ms(report.Processor), ms(report.ProcessorPerToken())
	r.Context, r.Grown = report.Context, len(report.Growths)
	for _, g := range report.Growths {
		r.GrowthMS += ms(g.Took)
	}
	r.Rows.Valid, r.Rows.Wasted, r.Rows.Padding = report.ValidRows, report.WastedRows, report.PaddingRows
	r.Draft, r.AcceptLength, r.DraftMS = report.Draft, report.AcceptLength(), ms(report.Drafting)
	r.DecodeSteps, r.DraftedRows, r.AcceptedRows, r.WastedRows = report.DecodeSteps, report.DraftedRows, report.AcceptedRows, report.WastedRows
	r.Lossless = llamaserver.LosslessOf(report)
	r.Plan.Name, r.Plan.Clock = report.Residency, report.Clock.String()
	if p := report.Plan; p != nil {
		r.Plan.Name, r.Plan.Reason, r.Plan.Spare, r.Plan.Switches, r.Plan.FailedReason = p.Name, p.Reason, p.Spare, p.Switches, p.Failed
		t := &p.Timeline
		r.Plan.SwitchEndMS, r.Plan.ExposedMS, r.Plan.StallMS = t.SwitchEndMs, max(0, t.ExposedMs), t.StallMs // narrow graphs may be sooner than wide ones
		r.Plan.PeakBytes, r.Plan.LoadedBytes = t.PeakBytes, t.IOBytes
	}
	r.Lanes.NPU, r.Lanes.CPU = report.Ops[backend.NPU], report.Ops[backend.CPU]
	r.Device.Provider, r.Device.BuildID, r.Device.SoC, r.Device.Emulated = c.Provider, c.BuildID, c.SoC, paceOf(c)
	r.Memory.Resident, r.Memory.Peak = m.Programs+m.Cache+m.IO, peakMemory()
	return r
}
