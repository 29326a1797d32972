package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/lab/bench"
)

func newRegimesCommand() *cobra.Command {
	var model, output string
	cmd := &cobra.Command{
		Use:   "regimes",
		Short: "Draw the plan chosen for each memory and prompt length",
		Long: `Draw a map of the plans that the engine chooses, by device, memory, prompt length and
load speed, as SVG.`,
		Args: cmdline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := bench.RunRegimes(cmd.Context(), model, counter(cmd.ErrOrStderr(), false))
			if err != nil {
				return err
			}
			if output == "" {
				return r.SVG(cmd.OutOrStdout())
			}
			file, err := os.Create(output)
			if err != nil {
				return err
			}
			if err := r.SVG(file); err != nil {
				_ = file.Close() // the error of Close is ignored, because the first error is its cause
				return err
			}
			return file.Close()
		},
	}
	cmd.Flags().StringVar(&model, "as", "qwen2.5-1.5b", "model in the device profiles whose execution times are simulated")
	cmd.Flags().StringVarP(&output, "output", "o", "", "SVG file instead of the standard output")
	return cmd
}
