package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the supported libraries",
		Args:  cmdline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printVersion(cmd.OutOrStdout(), cmdline.Version())
		},
	}
}

// printVersion prints the versions that a bug report should contain.
func printVersion(w io.Writer, program string) error {
	oldest, tested := qnn.CoreAPI()
	_, err := fmt.Fprintf(w, "sdnpu %s\nbuilt with %s for %s/%s\nQNN core API %d.%d and later, tested up to %d.%d (the emulator's)\n",
		program, runtime.Version(), runtime.GOOS, runtime.GOARCH, oldest.Major, oldest.Minor, tested.Major, tested.Minor)
	return err
}
