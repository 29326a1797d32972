package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newEmulatorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "emulator",
		Short: "Build the emulator of the NPU's library with the C compiler and print its path",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := buildEmulator(cmd.Context(), newLogger(cmd.ErrOrStderr(), false), nil)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		},
	}
}
