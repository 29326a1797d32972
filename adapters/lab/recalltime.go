package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// recallTimeFlags holds the flags of `sdnpu-lab recall time`.
type recallTimeFlags struct {
	text          string
	slots, output int
	lengths       []int
}

func newRecallTimeCommand() *cobra.Command {
	var f recallTimeFlags
	cmd := &cobra.Command{
		Use:   "time MODEL.gguf --text FILE",
		Short: "Measure the time per token beyond the graph",
		Long: `Measure the time per token beyond the graph.

For each length, compute a prompt of that many tokens with sdnpu.attention=shadow, and decode tokens
without drafts. Print the time of a decoded token on the device's clock, with the blocks that run
again for other pages, and without the choice of pages, which is the CPU's. The text is repeated if
it is too short. To simulate a phone, set SDNPU_EMULATOR.`,
		Example: "  SDNPU_LIBRARY=emulator SDNPU_EMULATOR=profile=sd8gen2,as=qwen2.5-1.5b,pace=virtual sdnpu-lab recall time MODEL.gguf --text FILE",
		Args:    cmdline.OneArgument("MODEL.gguf"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.text, "text", "", "text file (required)")
	flags.IntVar(&f.slots, "slots", 4096, "number of tokens that a pass attends to")
	flags.IntSliceVar(&f.lengths, "lengths", []int{4000, 32000}, "lengths of prompts in tokens")
	flags.IntVar(&f.output, "output", 64, "number of decoded tokens")
	_ = cmd.MarkFlagRequired("text") // MarkFlagRequired cannot fail, because the flag exists
	return cmd
}

func (f *recallTimeFlags) run(cmd *cobra.Command, path string) error {
	if f.slots < 1 || f.output < 2 || len(f.lengths) == 0 {
		return fmt.Errorf("--slots %d --output %d: want at least 1 slot, 2 tokens and one length", f.slots, f.output)
	}
	text, err := f.tokens(path)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	first := time.Duration(0)
	for _, n := range f.lengths {
		each, err := f.measure(cmd, path, text[:n], out)
		if err != nil {
			return err
		}
		if first == 0 {
			first = each
			continue
		}
		fmt.Fprintf(out, "%d tokens: %.3f x the time at %d\n", n, float64(each)/float64(first), f.lengths[0])
	}
	return nil
}

// tokens returns as many tokens as the longest prompt has.
func (f *recallTimeFlags) tokens(path string) (text []int32, err error) {
	file, m, err := launch.OpenModel(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	data, err := os.ReadFile(f.text)
	if err != nil {
		return nil, err
	}
	all, err := m.Tokenizer.Encode(string(data), tokenizer.EncodeOptions{AddSpecial: true})
	if err != nil || len(all) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%s: want a text with tokens", f.text))
	}
	most := 0
	for _, n := range f.lengths {
		if n < 1 || n > 1<<20 {
			return nil, fmt.Errorf("--lengths %d: want 1..%d", n, 1<<20)
		}
		most = max(most, n)
	}
	for len(text) < most {
		text = append(text, all...)
	}
	return text[:most], nil
}

// measure computes one prompt and decodes, and returns the time of a decoded token.
func (f *recallTimeFlags) measure(cmd *cobra.Command, path string, prompt []int32, out io.Writer) (each time.Duration, err error) {
	s, err := launch.ReadSettings()
	if err != nil {
		return 0, err
	}
	c, err := launch.ResolveConfig(path, map[string]string{
		"sdnpu.attention": "shadow", "sdnpu.attention_keep": fmt.Sprint(f.slots), "sdnpu.rows": "128,1", "sdnpu.draft": "off", "sdnpu.plan": "resident",
	})
	if err != nil {
		return 0, err
	}
	c.FirstContext, c.Database = f.slots, ""
	g, err := openGenerator(cmd.Context(), s, launch.Options{Path: path, Config: c, Context: len(prompt) + f.output + 16}, cmd.ErrOrStderr())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	r, err := g.Generate(cmd.Context(), engine.Request{Prompt: prompt, MaxTokens: f.output}, func(engine.Piece) error { return nil })
	if err != nil {
		return 0, err
	}
	device := time.Duration(0)
	for _, v := range r.Verifications {
		device += v.Device
	}
	n := len(r.Verifications)
	if n == 0 {
		return 0, fmt.Errorf("a prompt of %d tokens: no token was decoded", len(prompt))
	}
	clock := "this machine's clock"
	if r.Clock.Paced != "" {
		clock = r.Clock.Paced
	}
	each = device / time.Duration(n)
	fmt.Fprintf(out, "%d tokens on %d slots: %v per decoded token (%s), %d tokens\n", len(prompt), r.Context, each.Round(time.Microsecond), clock, n)
	return each, nil
}
