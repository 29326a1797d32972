package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/choose"
	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/findings"
	"github.com/sdnpu/sdnpu/adapters/launch"
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
		Short: "Measure the quality of recipes on a model",
		Long: `Without --recipe, and if the model names no recipe, measure the time of all recipes on the
device, check the recipes, and store the fastest recipe that passes its gate. If the model has
sdnpu.recipe=auto, it then runs with the stored recipe on this device, until the device or its
library changes.

With a recipe, run texts through the model twice: in float32 on the float device, and with the
recipe on the device. Print the difference after each layer, the perplexities, the share of equal
top tokens, and the size of the weights.

Each recipe has a gate, a quality that the recipe must keep. A recipe fails if it is below its
gate with 95 % certainty. The result of the check is kept in the image cache, and a model does
not load with a recipe that failed. To allow recipes that failed, set ` + findings.GateVariable + `=off.
A check of too few positions is not kept, and a new calibration discards earlier checks.`,
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
	if stdout == os.Stdout { // libraries must not print to the standard output, which holds the result
		if stdout, err = cmdline.TakeStdout(); err != nil {
			return err
		}
	}
	bar := launch.NewBar(cmd.ErrOrStderr())
	defer bar.Close()
	if configuration.Recipe == config.AutoRecipe {
		return c.choose(cmd, stdout, s, launch.Options{
			Path: path, Config: configuration, Sequences: 1, Logger: cmdline.NewLogger(cmd.ErrOrStderr(), false), Progress: bar.Step,
		})
	}
	r, err := choose.Check(ctx, s, os.Args[0], launch.Options{
		Path:   path,
		Config: configuration, Logger: cmdline.NewLogger(cmd.ErrOrStderr(), false), Progress: bar.Step,
	}, text)
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

// choose compares all recipes on the device, stores the choice and prints it.
func (c *checkFlags) choose(cmd *cobra.Command, stdout io.Writer, s launch.Settings, o launch.Options) error {
	if len(c.texts) > 0 {
		return errors.New("--text needs --recipe: the recipes are compared with the default text")
	}
	choice, err := contest(cmd, s, o).Run(cmd.Context())
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if c.json {
		return json.NewEncoder(stdout).Encode(choice)
	}
	return printChoice(stdout, choice)
}

// contest returns a comparison of the recipes of a model, which prints its steps.
func contest(cmd *cobra.Command, s launch.Settings, o launch.Options) choose.Contest {
	return choose.Contest{
		Settings: s, Program: os.Args[0], Version: cmdline.Version(), Options: o,
		Say: func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) },
	}
}

// printChoice prints a table of the compared recipes.
func printChoice(w io.Writer, c *findings.Choice) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "model\t%s\ndevice\t%s\ntimes\t%s\n", c.Model, c.Device, c.Times)
	for _, trial := range c.Trials {
		fmt.Fprintf(t, "%s\t%s\n", trial.Recipe, trial.Line())
	}
	fmt.Fprintf(t, "chosen\t%s; to pin this recipe, set sdnpu.recipe=%s\n", c.Recipe, c.Recipe)
	return t.Flush()
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
