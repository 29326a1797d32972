package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/choose"
	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/enable"
	"github.com/sdnpu/sdnpu/adapters/findings"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
)

// adopted lists the variables in addition to sdnpu's own that decide where Ollama's
// runner finds images and libraries, and how many requests share passes.
var adopted = []string{"HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "ADSP_LIBRARY_PATH", "OLLAMA_NUM_PARALLEL", "OLLAMA_CONTEXT_LENGTH"}

func isAdopted(name string) bool {
	for _, a := range adopted {
		if name == a {
			return true
		}
	}
	return strings.HasPrefix(name, "SDNPU_")
}

// adopt sets the environment variables of Ollama's server in this process, because the
// runner that the server starts reads them. With the variables of its own process, the
// runner might not find what sdnpu enable has compiled.
func adopt(environment []string) {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); isAdopted(name) {
			_ = os.Unsetenv(name) // Unsetenv fails only for an invalid name
		}
	}
	for _, entry := range environment {
		if name, value, _ := strings.Cut(entry, "="); isAdopted(name) {
			_ = os.Setenv(name, value) // Setenv fails only for an invalid name
		}
	}
}

// prepareVariant calibrates, checks and compiles a model with the keys of an
// adapter, as Ollama's runner would load it.
func prepareVariant(cmd *cobra.Command, m enable.Model, adapter string) (err error) {
	ctx := cmd.Context()
	s, err := launch.ReadSettings()
	if err != nil {
		return err
	}
	c, err := variantConfig(m.Path, adapter)
	if err != nil {
		return err
	}
	if s.Cache == "" { // without a cache, nothing that is prepared could be stored
		return nil
	}
	tokens, err := contextOf(m)
	if err != nil {
		return err
	}
	bar := launch.NewBar(cmd.ErrOrStderr())
	defer bar.Close()
	options := launch.Options{
		Path: m.Path, Config: c, Context: tokens, Sequences: max(1, number(os.Getenv("OLLAMA_NUM_PARALLEL"))),
		Logger: cmdline.NewLogger(cmd.ErrOrStderr(), false), Progress: bar.Step, ServesEmbeddings: true,
	}
	embeds, err := launch.Embeds(m.Path)
	if err != nil {
		return err
	}
	if embeds { // a check compares the next tokens that recipes predict, and the model predicts none
		l, err := s.Open(ctx, os.Args[0], options)
		if err != nil {
			return err
		}
		return l.Close()
	}
	if err := checkVariant(cmd, s, options); err != nil {
		return err
	}
	l, err := s.Open(ctx, os.Args[0], options)
	if err != nil {
		return err
	}
	return errors.Join(l.Engine.CompileContexts(ctx), l.Close())
}

// variantConfig returns the config with which Ollama's runner loads the variant.
func variantConfig(path, adapter string) (config.Config, error) {
	own, err := launch.ConfigSource("the model", path)
	if err != nil {
		return config.Config{}, err
	}
	keys, err := launch.ConfigSource("the adapter", adapter)
	if err != nil {
		return config.Config{}, err
	}
	c, err := config.Resolve(own, keys, config.Environment(os.LookupEnv))
	if err == nil && !c.Enabled {
		err = fmt.Errorf("%s is false where `ollama serve` runs: remove this variable and start it again", config.Keys[0].Variable())
	}
	return c, err
}

// checkVariant measures the quality of a recipe that rounds to integers, unless it is
// known, and rejects a recipe below its quality gate.
func checkVariant(cmd *cobra.Command, s launch.Settings, o launch.Options) (err error) {
	if o.Config.Recipe == config.AutoRecipe {
		return chooseRecipe(cmd, s, o)
	}
	recipe, err := model.FindRecipe(o.Config.Recipe)
	if err != nil || recipe.Linear.Bits == 0 || s.GateOff {
		return err
	}
	f, m, err := launch.OpenModel(o.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if recipe, err = s.Findings().Calibrated(cmd.Context(), o.Recipe(m)); err != nil {
		return err
	}
	c, known := s.Findings().LastCheck(m.Digest(), recipe)
	if !known {
		if c, err = choose.Check(cmd.Context(), s, os.Args[0], o, findings.CheckText()); err != nil {
			return err
		}
		if err := s.Findings().KeepCheck(cmd.Context(), c); err != nil {
			return err
		}
	}
	if err := c.GateError(); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "recipe %s: %s\n", c.Recipe, c.Gate.Verdict(c))
	return nil
}

// chooseRecipe compares the recipes of a model, unless one was chosen for this device
// already. If no recipe passes its gate, the model runs with a recipe that needs no
// calibration.
func chooseRecipe(cmd *cobra.Command, s launch.Settings, o launch.Options) error {
	choice, err := contest(cmd, s, o).Known(cmd.Context())
	if errors.Is(err, findings.ErrNoChoice) || errors.Is(err, findings.ErrStaleChoice) || errors.Is(err, findings.ErrDamagedChoice) {
		choice, err = contest(cmd, s, o).Run(cmd.Context())
	}
	if errors.Is(err, choose.ErrNone) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%v: a recipe that needs no calibration is used\n", err)
		return nil
	}
	if err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "recipe %s\n", choice.Figures())
	}
	return err
}

// contest returns a comparison of the recipes of a model, which prints its steps.
func contest(cmd *cobra.Command, s launch.Settings, o launch.Options) choose.Contest {
	return choose.Contest{
		Settings: s, Program: os.Args[0], Version: cmdline.Version(), Options: o,
		Say: func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) },
	}
}

// contextOf returns the length of the context with which Ollama loads a model: its
// parameter, the server's setting, or Ollama's default for machines with a small
// graphics memory. Ollama never takes a longer context than the model was made for.
func contextOf(m enable.Model) (n int, err error) {
	const defaultContext = 4096
	f, err := gguf.OpenKeys(m.Path)
	if err != nil {
		return 0, err
	}
	longest, err := f.Int(f.Architecture()+".context_length", defaultContext)
	n = cmp.Or(number(m.Parameters["num_ctx"]), number(os.Getenv("OLLAMA_CONTEXT_LENGTH")), defaultContext)
	return min(n, int(longest)), errors.Join(err, f.Close())
}

// number parses a positive number. For any other text, number returns 0.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return max(0, n)
}
