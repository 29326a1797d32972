package main

import (
	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/hexagon"
)

// compileFlags holds the flags of a command that compiles for the chip of another
// machine.
type compileFlags struct {
	chip, recipe, rows, library string
	context                     int
}

// register adds the flags for another machine's chip to a command. The caller gives the
// defaults and help texts of the flags for widths and context.
func (f *compileFlags) register(cmd *cobra.Command, rows, rowsUsage string, context int, contextUsage string) {
	flags := cmd.Flags()
	flags.StringVar(&f.chip, "soc", "", "chip: its part number, such as sm8650, or the vendor's number (required)")
	flags.StringVar(&f.recipe, "recipe", "", config.RecipeUsage())
	flags.StringVar(&f.rows, "rows", rows, rowsUsage)
	flags.IntVar(&f.context, "context", context, contextUsage)
	flags.StringVar(&f.library, "library", "", "emulator, or the path of a QNN library (default: SDNPU_LIBRARY, else the installed one)")
	_ = cmd.MarkFlagRequired("soc") // MarkFlagRequired cannot fail, because the flag exists
}

// target returns the chip that --soc names, and the settings with which to compile
// for it.
func (f *compileFlags) target() (hexagon.Chip, launch.Settings, error) {
	chip, err := hexagon.FindChip(f.chip)
	if err != nil {
		return chip, launch.Settings{}, err
	}
	s, err := launch.ReadSettings()
	if err != nil {
		return chip, launch.Settings{}, err
	}
	if s.SoC = chip.SoC; f.library != "" {
		s.Library = f.library
	}
	return chip, s, nil
}
