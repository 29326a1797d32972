package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newEmulatorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "emulator",
		Short: "Build the emulator of the NPU's library with the C compiler and print its path",
		Long: "The emulator is a library with the entry points of Qualcomm's libQnnHtp.so, which computes on\n" +
			"this machine's processor. It is built once, with the C compiler (cc, gcc or clang), and kept in the\n" +
			"user's cache folder. Commands that load a library take it as --library emulator or by\n" +
			"SDNPU_LIBRARY=emulator and build it where it is missing; SDNPU_EMULATOR makes it take a\n" +
			"phone's time and memory.",
		Args: noArguments,
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
