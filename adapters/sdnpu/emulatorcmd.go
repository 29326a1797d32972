package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
)

func newEmulatorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "emulator",
		Short: "Build the emulator of the NPU's library with the C compiler and print its path",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := buildEmulator(cmd.Context(), slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		},
	}
}
