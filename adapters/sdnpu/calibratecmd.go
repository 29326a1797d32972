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
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// calibrateFlags are the flags of `sdnpu calibrate`.
type calibrateFlags struct {
	texts          []string
	output, recipe string
	json           bool
}

// errNotCalibrated is returned for a recipe that ranges would change nothing of.
var errNotCalibrated = errors.New("this recipe needs no calibration")

// calibratedNames lists the recipes that use what calibrate finds.
func calibratedNames() string {
	var names []string
	for _, r := range model.Recipes {
		if r.NeedsRanges() {
			names = append(names, r.Name)
		}
	}
	return strings.Join(names, ", ") + ", and those that end in " + model.SmallCache
}

func newCalibrateCommand() *cobra.Command {
	var f calibrateFlags
	cmd := &cobra.Command{
		Use:   "calibrate MODEL.gguf [--text FILE]... [-o RANGES]",
		Short: "Find out which numbers a model's activations are",
		Long: "Calibrate reads texts with the float device and notes the least and the largest number of\n" +
			"each activation that recipes with integers round (w8a16, w8a8, w4a16-lpbq, and those that\n" +
			"end in +kv8; the others need none of this); it also rounds their weights so that errors make\n" +
			"up for each other in these texts. Such recipes use what is stored in the image cache, where\n" +
			"calibrate writes unless -o names another file; without it they calibrate themselves with a\n" +
			"text that the program brings. Use texts like those that the model will see, of at least " + strconv.Itoa(leastTokens) + "\n" +
			"tokens. Run `sdnpu check` afterwards: an earlier check of other ranges no longer counts.\n\n" +
			"Recipes look for ranges in " + rangesFolder + "/ of the image cache (SDNPU_CACHE). A file that -o named is used\n" +
			"once it lies there as DIGEST" + keptFileSuffix + " (its field digest) and the " + codesSuffix + " file beside it as DIGEST" + codesSuffix + ".",
		Example: "  sdnpu calibrate model.gguf\n  sdnpu calibrate model.gguf --text mail.txt --text notes.txt",
		Args:    oneArgument("MODEL.gguf"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.texts, "text", nil, textUsage)
	flags.StringVar(&f.recipe, "recipe", "w8a16", "round weights as this recipe has them: "+calibratedNames()+"; w4a16-lpbq has a form of its own, the others share one")
	flags.StringVarP(&f.output, "output", "o", "", "file of ranges (default: where recipes look)")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

// openModel opens a file with its tokenizer.
func openModel(path string) (*gguf.File, *model.Model, *tokenizer.Tokenizer, error) {
	f, err := openGGUF(path)
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := model.Load(f)
	if err == nil {
		var t *tokenizer.Tokenizer
		if t, err = tokenizer.New(f); err == nil {
			return f, m, t, nil
		}
	}
	return nil, nil, nil, errors.Join(withModelRemedy(err), f.Close())
}

// joinTexts joins files as passages; none are the default text.
func joinTexts(files []string, fallback, name string) (text, source string, err error) {
	if len(files) == 0 {
		return fallback, name, nil
	}
	var texts, names []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", "", err
		}
		part, err := textIn(data, 0)
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", file, err)
		}
		texts, names = append(texts, part), append(names, filepath.Base(file))
	}
	return strings.Join(texts, passageEnd), strings.Join(names, ", "), nil
}

func (c *calibrateFlags) run(cmd *cobra.Command, path string) (err error) {
	s, err := readSettings()
	if err != nil {
		return err
	}
	recipe, err := model.FindRecipe(c.recipe)
	if err != nil {
		return err
	}
	if !recipe.NeedsRanges() {
		return fmt.Errorf("--recipe %s: %w: it rounds no activations; those that do are %s", recipe.Name, errNotCalibrated, calibratedNames())
	}
	text, source, err := joinTexts(c.texts, defaultText, "default text")
	if err != nil {
		return err
	}
	if c.output != "" { // an own file's folder is made where it is missing
		if err := cmp.Or(checkWritable(c.output), checkWritable(codesBeside(c.output))); err != nil {
			return fmt.Errorf("-o: %w", err)
		}
		if same(path, c.output) {
			return fmt.Errorf("-o: %s is the model that is read and would be overwritten: name another file", c.output)
		}
	}
	if c.output == "" {
		if err := s.canKeep(rangesFolder); err != nil {
			return err
		}
	}
	f, m, tok, err := openModel(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	output := c.output
	if output == "" {
		output = s.rangesPathFor(m.Digest(), recipe)
	}
	if output == "" {
		return errors.New("SDNPU_CACHE=off: name a file with -o")
	}
	begin := time.Now()
	bar := newBar(cmd.ErrOrStderr())
	ranges, err := calibrateTo(cmd.Context(), output, m, tok, recipe.Multiples(), text, source, modelName(f), func(done, total int) {
		bar.step(engine.Progress{Graph: calibrating, Done: done, Total: total})
	})
	bar.close()
	if err != nil {
		return err
	}
	return c.print(cmd.OutOrStdout(), ranges, output, time.Since(begin))
}

func (c *calibrateFlags) print(w io.Writer, f rangesFile, path string, took time.Duration) error {
	if c.json {
		return json.NewEncoder(w).Encode(struct {
			Model   string  `json:"model"`
			Digest  string  `json:"digest"`
			Source  string  `json:"source"`
			Tokens  int     `json:"tokens"`
			Tensors int     `json:"tensors"`
			Path    string  `json:"path"`
			TookMS  float64 `json:"took_ms"`
		}{f.Model, f.Digest, f.Source, f.Tokens, len(f.Tensors), path, float64(took.Microseconds()) / 1000})
	}
	_, err := fmt.Fprintf(w, "%d ranges of %s from %d tokens (%s) in %v: %s\n", len(f.Tensors), f.Model, f.Tokens, f.Source, took.Round(time.Millisecond), path)
	return err
}

// storeJSON writes a value to a file of ours.
func storeJSON(ctx context.Context, path string, value any) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return writeFile(ctx, path, 0o600, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(value)
	})
}
