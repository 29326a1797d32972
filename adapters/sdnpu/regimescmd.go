package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/bench"
)

func newRegimesCommand() *cobra.Command {
	var model, output string
	cmd := &cobra.Command{
		Use:   "regimes",
		Short: "Draw which plan is chosen where: by device, memory, prompt and speed of loads",
		Args:  noArguments,
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
				_ = file.Close() // the first error says more
				return err
			}
			return file.Close()
		},
	}
	cmd.Flags().StringVar(&model, "as", "qwen2.5-1.5b", "model of the profiles")
	cmd.Flags().StringVarP(&output, "output", "o", "", "SVG file instead of the standard output")
	return cmd
}
