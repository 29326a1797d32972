package main

import (
	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/hexagon"
)

// compileFlags are those of commands that compile for a chip which need not be
// this machine's.
type compileFlags struct {
	chip, recipe, rows, library string
	context                     int
}

// register adds them; what a command says of widths and context is its own.
func (f *compileFlags) register(cmd *cobra.Command, rows, rowsUsage string, context int, contextUsage string) {
	flags := cmd.Flags()
	flags.StringVar(&f.chip, "soc", "", "chip: its part number, such as sm8650, or the vendor's number of it (required)")
	flags.StringVar(&f.recipe, "recipe", "", recipeUsage())
	flags.StringVar(&f.rows, "rows", rows, rowsUsage)
	flags.IntVar(&f.context, "context", context, contextUsage)
	flags.StringVar(&f.library, "library", "", "emulator, or the path of a QNN library (default: SDNPU_LIBRARY, else the installed one)")
	_ = cmd.MarkFlagRequired("soc") // the flag is there
}

// target is the chip, and this machine's settings for compiling for it.
func (f *compileFlags) target() (hexagon.Chip, settings, error) {
	chip, err := hexagon.FindChip(f.chip)
	if err != nil {
		return chip, settings{}, err
	}
	s, err := readSettings()
	if err != nil {
		return chip, settings{}, err
	}
	if s.soc = chip.SoC; f.library != "" {
		s.library = f.library
	}
	return chip, s, nil
}
