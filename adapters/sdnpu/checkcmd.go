package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/findings"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/backend/model"
)

// checkFlags holds the flags of `sdnpu check`.
type checkFlags struct {
	recipe, library string
	texts           []string
	json            bool
}

func newCheckCommand() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check MODEL.gguf [--recipe R]",
		Short: "Measure the quality of a recipe on a model",
		Long: "Run texts through the model twice: in float32 on the float device, and with the recipe on the\n" +
			"device. Print the difference after each layer, the perplexities, the share of equal top tokens,\n" +
			"and the size of the weights.\n\n" +
			"Each recipe has a gate, a quality that it must keep. A recipe fails if it is below its gate with\n" +
			"95 % certainty. The result is kept in the image cache: models no longer load with a recipe that\n" +
			"failed, unless " + findings.GateVariable + "=off. A check of too few positions is not kept, and a new calibration\n" +
			"discards the check.",
		Example: "  sdnpu check model.gguf --recipe w8a16 --library emulator",
		Args:    cmdline.OneArgument("MODEL.gguf"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.recipe, "recipe", "", config.RecipeUsage())
	flags.StringVar(&f.library, "library", "", cmdline.LibraryUsage)
	flags.StringArrayVar(&f.texts, "text", nil, textUsage)
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

func (c *checkFlags) run(cmd *cobra.Command, path string) (err error) {
	ctx := cmd.Context()
	s, err := launch.ReadSettings()
	if err != nil {
		return err
	}
	if c.library != "" {
		s.Library = c.library
	}
	configuration, err := launch.ResolveConfig(path, map[string]string{"sdnpu.recipe": c.recipe})
	if err != nil {
		return err
	}
	if err := s.Findings().CheckWritable(findings.ChecksFolder); err != nil {
		return err
	}
	text, err := joinTexts(c.texts, findings.CheckText())
	if err != nil {
		return err
	}
	stdout := cmd.OutOrStdout()
	if stdout == os.Stdout { // libraries may print to the standard output
		if stdout, err = cmdline.TakeStdout(); err != nil {
			return err
		}
	}
	bar := launch.NewBar(cmd.ErrOrStderr())
	defer bar.Close()
	r, err := checkRecipe(ctx, s, text, launch.Options{
		Path:   path,
		Config: configuration, Logger: cmdline.NewLogger(cmd.ErrOrStderr(), false), Progress: bar.Step,
	})
	if err != nil {
		return err
	}
	bar.Close()
	if c.json {
		err = json.NewEncoder(stdout).Encode(r)
	} else {
		err = printCheck(stdout, r)
	}
	err = errors.Join(err, s.Findings().KeepCheck(ctx, r)) // the result is printed even if it cannot be stored
	if err != nil || s.GateOff {
		return err
	}
	if r.Positions < findings.MinPositions {
		return fmt.Errorf("check: %w: %d, want at least %d: add more files with --text, or none for the default text", findings.ErrFewPositions, r.Positions, findings.MinPositions)
	}
	if err := r.GateError(); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}

// checkRecipe compares a recipe of a model on the device with float32.
func checkRecipe(ctx context.Context, s launch.Settings, text findings.Text, j launch.Options) (_ *findings.Check, err error) {
	f, m, err := openModel(j.Path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	dev, err := s.OpenDevice(ctx, os.Args[0], j.Logger)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	recipe, err := s.Findings().Calibrated(ctx, s.FirstRecipe(j, m.Model, dev.Capabilities()).Recipe(m))
	if err != nil {
		return nil, err
	}
	r, err := findings.Comparison{
		Model: m, Recipe: recipe, Device: dev, Text: text, ProcessorTime: launch.ProcessorTime, Progress: j.Progress,
	}.Run(ctx)
	if err != nil {
		return nil, err
	}
	r.Device = launch.Describe(dev.Capabilities())
	r.AsFloats = launch.Emulated(dev.Capabilities()) && slices.ContainsFunc([]model.Linear{recipe.Linear, recipe.Head, recipe.Sensitive}, func(l model.Linear) bool { return l.Block > 0 && l.Activations == 0 })
	return r, nil
}

func printCheck(w io.Writer, r *findings.Check) error {
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
	fmt.Fprintf(t, "weights\t%s packed, without their scales\n", cmdline.Bytes(r.Weights))
	fmt.Fprintf(t, "size\timages of one width on this device %s, in memory %s\n", cmdline.Bytes(r.Image), cmdline.Bytes(r.Memory))
	if r.AsFloats {
		fmt.Fprintf(t, "\tthe emulator keeps weights in blocks under float16 as floats of 16 or 32 bits, which it multiplies; the vendor's library packs them\n")
	}
	fmt.Fprintf(t, "processor\t%.2f ms for a token, on the host\n", r.CPU)
	fmt.Fprintf(t, "gate\t%s: %s\n", r.Gate, r.Gate.Verdict(r))
	return t.Flush()
}
