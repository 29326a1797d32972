package main

import (
	"context"
	_ "embed" // the default text
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/chain"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/model"
)

// checkText is what recipes are judged on where nobody gives a text.
//
//go:embed calibration/check.txt
var checkText string

// checkFlags are the flags of `sdnpu check`.
type checkFlags struct {
	recipe, library string
	texts           []string
	json            bool
}

func newCheckCommand() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check MODEL.gguf [--recipe R]",
		Short: "Measure what a precision recipe makes of a model",
		Long: "Check sends texts through a model twice, layer by layer: in float32 on the float device, and\n" +
			"by the recipe on the device. It prints how far apart they are behind each layer, the perplexity\n" +
			"of both, how often they choose the same token, and what the recipe takes. The figures are kept\n" +
			"in the image cache: a recipe that was found below its gate is refused from then on, and check\n" +
			"itself fails, unless " + gateVariable + "=off. A gate refuses what the check is 95 % sure to lie below\n" +
			"it; a check of too few positions decides nothing and is not kept. Another calibration voids it.",
		Example: "  sdnpu check model.gguf --recipe w8a16 --library emulator",
		Args:    oneArgument("MODEL.gguf"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.recipe, "recipe", "", recipeUsage())
	flags.StringVar(&f.library, "library", "", libraryUsage)
	flags.StringArrayVar(&f.texts, "text", nil, textUsage)
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

// checkResult is what --json prints and what is kept. A layer without any
// difference has no SQNR.
type checkResult struct {
	Model  string `json:"model"`
	Digest string `json:"digest"`
	Recipe string `json:"recipe"`
	Device string `json:"device"`
	// Ranges tells with which ranges of activations, "" for a recipe without.
	Ranges    string       `json:"ranges,omitempty"`
	Source    string       `json:"source"`
	Positions int          `json:"positions"`
	Layers    []layerCheck `json:"layers"`
	// Perplexity is exp of the mean loss, Ratio the recipe's over float's,
	// Uncertainty the standard error of that ratio's logarithm.
	Perplexity struct {
		Float       number  `json:"float"`
		Recipe      number  `json:"recipe"`
		Ratio       number  `json:"ratio"`
		Uncertainty float64 `json:"uncertainty"`
	} `json:"perplexity"`
	// Divergence is Kullback and Leibler's, float to recipe, in nats.
	Divergence number `json:"kl"`
	// Top1 is the share of positions with float's likeliest token, or one that is
	// as likely; Tied counts those among them.
	Top1 float64 `json:"top1"`
	Tied int     `json:"tied"`
	// Weights are the recipe's numbers packed, without their scales; Image and
	// Memory what this device makes of them, and AsFloats why that may be more.
	Weights  int64 `json:"weight_bytes"`
	Image    int64 `json:"image_bytes"`
	Memory   int64 `json:"program_bytes"`
	AsFloats bool  `json:"blocks_as_floats,omitempty"`
	// CPU is the processors' time for a token on the device, in milliseconds.
	CPU    float64 `json:"cpu_ms_per_token"`
	Gate   gate    `json:"gate"`
	Passed bool    `json:"passed"`
}

type layerCheck struct {
	Layer int      `json:"layer"`
	SQNR  *float64 `json:"sqnr_db,omitempty"`
}

func (c *checkFlags) run(cmd *cobra.Command, path string) (err error) {
	ctx := cmd.Context()
	s, err := readSettings()
	if err != nil {
		return err
	}
	if c.library != "" {
		s.library = c.library
	}
	configuration, err := resolveConfig(path, map[string]string{"sdnpu.recipe": c.recipe})
	if err != nil {
		return err
	}
	if err := s.canKeep(checksFolder); err != nil {
		return err
	}
	text, source, err := joinTexts(c.texts, checkText, "default text")
	if err != nil {
		return err
	}
	stdout := cmd.OutOrStdout()
	if stdout == os.Stdout { // the figures' alone, whatever a library prints
		if stdout, err = takeStdout(); err != nil {
			return err
		}
	}
	bar := newBar(cmd.ErrOrStderr())
	defer bar.close()
	r, err := s.check(ctx, path, configuration, text, source, job{
		config: configuration, logger: newLogger(cmd.ErrOrStderr(), false), progress: bar.step,
	})
	if err != nil {
		return err
	}
	bar.close()
	if c.json {
		err = json.NewEncoder(stdout).Encode(r)
	} else {
		err = r.print(stdout)
	}
	if stored := s.checkPath(r.Digest, r.Recipe); stored != "" && r.Positions >= leastPositions {
		err = errors.Join(err, storeJSON(ctx, stored, r)) // what was measured is printed, whatever the disk says
	}
	if err != nil || s.gateOff {
		return err
	}
	if r.Positions < leastPositions {
		return fmt.Errorf("check: %w: %d, at least %d wanted: give more --text, or none for a text of our own", errFewPositions, r.Positions, leastPositions)
	}
	if reason := r.Gate.failure(r); reason != "" {
		return fmt.Errorf("check: %w", r.refusal(reason))
	}
	return nil
}

// check compares the recipe of a config on the settings' device with float.
func (s settings) check(ctx context.Context, path string, c config.Config, text, source string, j job) (_ *checkResult, err error) {
	f, m, tok, err := openModel(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	texts, _, err := passages(tok, text)
	if err != nil {
		return nil, err
	}
	recipe, err := s.calibrated(ctx, j, m, tok, modelName(f))
	if err != nil {
		return nil, err
	}
	exact, err := model.FindRecipe("f32")
	if err != nil {
		return nil, err
	}
	dev, err := s.openDevice(ctx, os.Args[0], j.logger)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	var chains [2]*chain.Chain
	for i, side := range []struct {
		dev    backend.Device
		recipe model.Recipe
	}{{cpu.New(cpu.Options{}), exact}, {dev, recipe}} {
		if chains[i], err = chain.New(side.dev, m, texts, chain.Options{Recipe: side.recipe, Context: passageTokens, Processor: processorTime}); err != nil {
			return nil, err
		}
	}
	found, err := chain.Compare(ctx, chains[0], chains[1], func(done, total int) {
		j.progress(engine.Progress{Graph: comparing, Done: done, Total: total})
	})
	if err != nil {
		return nil, err
	}
	r := newCheckResult(found, recipe)
	r.Model, r.Digest, r.Device, r.Source = modelName(f), m.Digest(), describe(dev.Capabilities()), source
	r.AsFloats = emulated(dev.Capabilities()) && slices.ContainsFunc([]model.Linear{recipe.Linear, recipe.Head, recipe.Sensitive}, func(l model.Linear) bool { return l.Block > 0 && l.Activations == 0 })
	return r, nil
}

func newCheckResult(c *chain.Comparison, recipe model.Recipe) *checkResult {
	r := &checkResult{
		Recipe: recipe.Name, Ranges: rangesDigest(recipe.Ranges),
		Positions: c.Positions, Divergence: number(c.Divergence), Top1: c.Agreement(), Tied: c.Tied,
		Weights: c.Sizes.Weights, Image: c.Sizes.Image, Memory: c.Sizes.Program, CPU: 1e3 * c.Spent.Seconds(), Gate: gateOf(recipe.Name),
	}
	r.Perplexity.Float, r.Perplexity.Recipe, r.Perplexity.Ratio = number(c.Reference), number(c.Tested), number(c.Tested/c.Reference)
	if r.Perplexity.Uncertainty = c.Uncertainty; math.IsNaN(c.Uncertainty) || math.IsInf(c.Uncertainty, 0) {
		r.Perplexity.Uncertainty = 0
	}
	for i, db := range c.SQNR {
		l := layerCheck{Layer: i}
		if !math.IsInf(db, 0) && !math.IsNaN(db) {
			l.SQNR = &db
		}
		r.Layers = append(r.Layers, l)
	}
	r.Passed = r.Positions >= leastPositions && r.Gate.failure(r) == ""
	return r
}

func (r *checkResult) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "model\t%s\n", r.Model)
	fmt.Fprintf(t, "recipe\t%s on %s\n", r.Recipe, r.Device)
	fmt.Fprintf(t, "text\t%s, %d positions\n", r.Source, r.Positions)
	for _, l := range r.Layers {
		db := "no difference"
		if l.SQNR != nil {
			db = fmt.Sprintf("%.1f dB", *l.SQNR)
		}
		fmt.Fprintf(t, "layer %d\t%s\n", l.Layer, db)
	}
	fmt.Fprintf(t, "perplexity\t%.4f, in float %.4f: %+.2f %%\n", r.Perplexity.Recipe, r.Perplexity.Float, 100*(r.Perplexity.Ratio-1))
	fmt.Fprintf(t, "divergence\t%.2e nats\n", r.Divergence)
	fmt.Fprintf(t, "same token\t%.2f %%, tied with another at %d of %d positions\n", 100*r.Top1, r.Tied, r.Positions)
	fmt.Fprintf(t, "weights\t%s packed, without their scales\n", bytesText(r.Weights))
	fmt.Fprintf(t, "size\timages of one width on this device %s, in memory %s\n", bytesText(r.Image), bytesText(r.Memory))
	if r.AsFloats {
		fmt.Fprintf(t, "\tthe emulator keeps weights in blocks under float16 as floats of 16 or 32 bits, which it multiplies; the vendor's library packs them\n")
	}
	fmt.Fprintf(t, "processor\t%.2f ms for a token, on the host\n", r.CPU)
	fmt.Fprintf(t, "gate\t%s: %s\n", r.Gate, r.Gate.verdict(r))
	return t.Flush()
}
