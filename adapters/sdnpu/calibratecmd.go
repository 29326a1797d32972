package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/atomicfile"
	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/database"
	"github.com/sdnpu/sdnpu/adapters/findings"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/backend/chain"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/hexagon"
)

// calibrateFlags holds the flags of `sdnpu calibrate`.
type calibrateFlags struct {
	texts          []string
	output, recipe string
	chip           string
	formError      float64
	each, json     bool
	attention      bool
	keep           float64
}

// errNotCalibrated is returned for a recipe that needs no activation ranges.
var errNotCalibrated = errors.New("this recipe needs no calibration")

// calibratedNames lists the recipes that need calibration.
func calibratedNames() string {
	var names []string
	for _, r := range model.Recipes {
		if r.NeedsRanges() {
			names = append(names, r.Name)
		}
	}
	return strings.Join(names, ", ") + ", and those with " + model.SmallCache
}

func newCalibrateCommand() *cobra.Command {
	var f calibrateFlags
	cmd := &cobra.Command{
		Use:   "calibrate MODEL.gguf [--text FILE]... [-o RANGES]",
		Short: "Calibrate activation ranges from sample text",
		Long: `Run texts through the model on the float device. Record the range of each activation that the
recipe rounds to integers, and round the weights so that their errors cancel out on these texts.
Only these recipes need a calibration: ` + calibratedNames() + `.

For the recipes w8a8-shadow and w8a8-shadow-f16, calibration also chooses the form of each
projection: 8 or 16 bits, the range to which inputs are clipped, and the hot channels, which a
second product multiplies. A projection gets the form with the fewest bits and hot channels whose
error is at most --form-error.
The error is the squared error of the result divided by the squared result. A smaller limit gives
more projections 16 bits, and so more quality. On some chips, forms of 8 bits take longer than
16 bits. With --chip, a projection gets 8 bits only in a form for which the vendor's compiler
estimates less time, and the command prints the times. The recipe w8a8-shadow-f16 has
float16 instead of 16 bits, and also instead of 8 bits with an error above 0.00045. With --recipe w8a8-shadow, the
command prints how many projections have which form. With --each, it also prints the form of each
projection: its bits, clip range and number of hot channels. With --json, it prints the hot channels, too.

Use texts like those that the model will see. The least number of tokens in the texts is ` + strconv.Itoa(findings.MinTokens) + `.
The result goes to the image cache, where recipes find it. If a model was never calibrated, its
first load calibrates it with a default text. After a calibration, run sdnpu check again, because
checks of other ranges are discarded.

With -o, the result goes to another file. To use that file, copy it to this path in the image
cache, where DIGEST is the value of the file's field digest: ` + findings.RangesFolder + `/DIGEST` + findings.FileSuffix + `.
The file of rounded weights has the suffix ` + findings.CodesSuffix + `, and is copied to ` + findings.RangesFolder + `/DIGEST` + findings.CodesSuffix + `.

With --attention, the command measures, in place of ranges, how attention to some keys changes the
result of each attention head. A head then keeps the share of the keys with which all heads
together lose least. The command prints these shares, with the mean in --keep. It holds the weights
in float32.`,
		Example: "  sdnpu calibrate model.gguf\n  sdnpu calibrate model.gguf --text mail.txt --text notes.txt\n  sdnpu calibrate model.gguf --attention",
		Args:    cmdline.OneArgument("MODEL.gguf"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.texts, "text", nil, textUsage)
	flags.StringVar(&f.recipe, "recipe", "w8a16", "recipe to calibrate for: "+calibratedNames()+"; all of them except w4a16-lpbq use the same ranges")
	flags.Float64Var(&f.formError, "form-error", chain.FormError, "largest error of a projection's form, for recipes with a shadow")
	flags.StringVar(&f.chip, "chip", "", "chip whose estimated times decide about forms: "+strings.Join(findings.TimedChips(), ", "))
	flags.StringVarP(&f.output, "output", "o", "", "file to write (default: in the image cache, where recipes find it)")
	flags.BoolVar(&f.each, "each", false, "print the form of each projection, for recipes with a shadow")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	flags.BoolVar(&f.attention, "attention", false, "measure which share of the keys each attention head needs")
	flags.Float64Var(&f.keep, "keep", 0.2, "with --attention: mean share of keys to print")
	cmd.MarkFlagsMutuallyExclusive("attention", "recipe")
	cmd.MarkFlagsMutuallyExclusive("attention", "form-error")
	cmd.MarkFlagsMutuallyExclusive("attention", "chip")
	return cmd
}

// timedChip returns the vendor's number of a chip for which the times of forms are known.
func timedChip(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	chip, err := hexagon.FindChip(name)
	if err != nil {
		return "", fmt.Errorf("--chip: %w", err)
	}
	number := fmt.Sprint(chip.SoC)
	if findings.FormTimes(number) == nil {
		return "", fmt.Errorf("--chip %s: no times of forms are known for it: want one of %s", chip.Name, strings.Join(findings.TimedChips(), ", "))
	}
	return number, nil
}

// joinTexts joins text files into one text, in which each file starts a new passage. If no
// files are given, joinTexts returns the argument `standard`.
func joinTexts(files []string, standard findings.Text) (findings.Text, error) {
	if len(files) == 0 {
		return standard, nil
	}
	var texts, names []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return findings.Text{}, err
		}
		part, err := database.Text(data, 0)
		if err != nil {
			return findings.Text{}, fmt.Errorf("%s: %w", file, err)
		}
		texts, names = append(texts, part), append(names, filepath.Base(file))
	}
	return findings.Text{Content: strings.Join(texts, findings.PassageEnd), Source: strings.Join(names, ", ")}, nil
}

func (c *calibrateFlags) run(cmd *cobra.Command, path string) (err error) {
	s, err := launch.ReadSettings()
	if err != nil {
		return err
	}
	if c.attention {
		return c.runAttention(cmd, s, path)
	}
	recipe, err := model.FindRecipe(c.recipe)
	if err != nil {
		return err
	}
	if !recipe.NeedsRanges() {
		return fmt.Errorf("--recipe %s: %w: the recipe does not round activations; want one of %s", recipe.Name, errNotCalibrated, calibratedNames())
	}
	if !(c.formError > 0 && c.formError <= 1) {
		return fmt.Errorf("--form-error %v: want a number above 0 and at most 1, such as %v", c.formError, chain.FormError)
	}
	chip, err := timedChip(c.chip)
	if err != nil {
		return err
	}
	text, err := joinTexts(c.texts, findings.CalibrationText())
	if err != nil {
		return err
	}
	if c.output != "" { // WriteTo creates a folder inside the cache, but not the folder of a file that -o names
		if err := cmp.Or(atomicfile.CheckWritable(c.output), atomicfile.CheckWritable(findings.CodesPath(c.output))); err != nil {
			return fmt.Errorf("-o: %w", err)
		}
		if atomicfile.Same(path, c.output) {
			return fmt.Errorf("-o: %s is the model to read: name another file", c.output)
		}
	}
	if c.output == "" {
		if err := s.Findings().CheckWritable(findings.RangesFolder); err != nil {
			return err
		}
	}
	f, m, err := launch.OpenModel(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	output := c.output
	if output == "" {
		output = s.Findings().RangesPath(m.Digest(), recipe)
	}
	if output == "" {
		return errors.New("there is no image cache (SDNPU_CACHE=off): name a file with -o")
	}
	begin := time.Now()
	bar := launch.NewBar(cmd.ErrOrStderr())
	ranges, err := findings.Calibration{Model: m, Text: text, Block: recipe.Multiples(), FormError: c.formError, Chip: chip, Progress: bar.Step}.WriteTo(cmd.Context(), output)
	bar.Close()
	if err != nil {
		return err
	}
	if !recipe.Shadow {
		ranges.Shadows, ranges.FormError, ranges.Chip = nil, 0, "" // recipes without shadows do not use the forms
	}
	return c.print(cmd.OutOrStdout(), recipe, ranges, output, time.Since(begin))
}

func (c *calibrateFlags) print(w io.Writer, recipe model.Recipe, f findings.RangesFile, path string, took time.Duration) error {
	if c.json {
		return json.NewEncoder(w).Encode(struct {
			Model   string  `json:"model"`
			Digest  string  `json:"digest"`
			Source  string  `json:"source"`
			Tokens  int     `json:"tokens"`
			Tensors int     `json:"tensors"`
			Path    string  `json:"path"`
			TookMS  float64 `json:"took_ms"`

			Shadows   map[string]model.Shadow `json:"shadows,omitempty"`
			FormError float64                 `json:"form_error,omitempty"`
			Chip      string                  `json:"chip,omitempty"`
		}{f.Model, f.Digest, f.Source, f.Tokens, len(f.Tensors), path, float64(took.Microseconds()) / 1000, f.Shadows, f.FormError, f.Chip})
	}
	if c.each {
		if err := printEach(w, recipe, f.Shadows); err != nil {
			return err
		}
	}
	if err := printForms(w, recipe, f); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d ranges of %s from %d tokens (%s) in %v: %s\n", len(f.Tensors), f.Model, f.Tokens, f.Source, took.Round(time.Millisecond), path)
	return err
}
