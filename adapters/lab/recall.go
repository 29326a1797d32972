package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/lab/recall"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// recallFlags holds the flags of `sdnpu-lab recall quality`.
type recallFlags struct {
	text                        string
	slots, tokens, rows, trials int
	recipe                      string
}

func newRecallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recall",
		Short: "Measure contexts beyond the graph",
		Args:  cmdline.NoArguments,
	}
	cmd.AddCommand(newRecallQualityCommand(), newRecallTimeCommand())
	return cmd
}

func newRecallQualityCommand() *cobra.Command {
	var f recallFlags
	cmd := &cobra.Command{
		Use:   "quality MODEL.gguf --text FILE",
		Short: "Measure the quality of contexts beyond the graph",
		Long: `Measure the quality of contexts beyond the graph.

Compute a text with dense attention and with fewer slots than tokens, on the float device,
and compare the perplexities of the positions after the slots. Then hide numbers in texts
of the same length, and count how many the model finds, with dense attention on texts that
fit into the slots, and with recall on the whole length.`,
		Args: cmdline.OneArgument("MODEL.gguf"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.text, "text", "", "text file (required)")
	flags.IntVar(&f.slots, "slots", 512, "number of tokens that a pass attends to")
	flags.IntVar(&f.tokens, "tokens", 2048, "number of tokens of the text")
	flags.IntVar(&f.rows, "rows", 128, "graph width of prompts")
	flags.IntVar(&f.trials, "trials", 0, "number of hidden numbers to search")
	flags.StringVar(&f.recipe, "recipe", "f32", "precision recipe")
	_ = cmd.MarkFlagRequired("text") // MarkFlagRequired cannot fail, because the flag exists
	return cmd
}

func (f *recallFlags) run(cmd *cobra.Command, path string) (err error) {
	file, m, err := launch.OpenModel(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	data, err := os.ReadFile(f.text)
	if err != nil {
		return err
	}
	filler := string(data[:min(len(data), 16*f.tokens)]) // the mean length of a text's tokens is below 16 bytes
	text, err := m.Tokenizer.Encode(filler, tokenizer.EncodeOptions{AddSpecial: true})
	if err != nil {
		return err
	}
	text = text[:min(len(text), f.tokens)]
	recipe, err := model.FindRecipe(f.recipe)
	if err != nil {
		return err
	}
	var engines [2]*engine.Engine
	for i, slots := range []int{0, f.slots} {
		o := engine.Options{Rows: []int{f.rows, 1}, Context: f.tokens + 16, Slots: slots, Recipe: recipe, Draft: draft.Mode{}}
		if engines[i], err = engine.New(cmd.Context(), cpu.New(cpu.Options{}), m.Model, m.Tokenizer, o); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, engines[i].Close()) }()
	}
	q, err := recall.Compare(cmd.Context(), engines[0], engines[1], text, f.rows, f.slots)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d slots, %d tokens: perplexity %.3f, dense %.3f (%+.2f %%), same top token %.1f %%, %.2f x the executes, %d positions\n",
		f.slots, len(text), q.Perplexity, q.Dense, 100*(q.Perplexity/q.Dense-1), 100*q.Same, q.Executes, q.Positions)
	for _, c := range []struct {
		name   string
		engine *engine.Engine
		tokens int
	}{{"dense", engines[0], f.slots}, {"dense", engines[0], f.tokens}, {"recall", engines[1], f.tokens}} {
		rng, found := rand.New(rand.NewPCG(1, 2)), 0
		for range f.trials {
			ok, err := recall.Passkey(cmd.Context(), c.engine, m.Tokenizer, filler, c.tokens, rng)
			if err != nil {
				return err
			}
			if ok {
				found++
			}
		}
		if f.trials > 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "%s, prompts of %d tokens: %d of %d numbers found\n", c.name, c.tokens, found, f.trials)
		}
	}
	return nil
}
