package cmdline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/internal/printable"
)

// errInterrupted replaces the error of work that the user has interrupted.
var errInterrupted = errors.New("interrupted")

// Main runs a program until it returns or the user interrupts it. Main prints the
// program's error and then exits with status 1. Other users cannot write the files
// that the program creates.
func Main(run func(ctx context.Context, args []string) error) {
	protectNewFiles()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt kills a program that does not react to the first
	if err := run(ctx, os.Args); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = errInterrupted
		}
		// Ollama shows its user the text that follows "error:".
		fmt.Fprintf(os.Stderr, "error: %s\n", printable.Text(err.Error()))
		stop()
		os.Exit(1)
	}
}

// Execute runs the command that args name; the program's name is not part of args.
func Execute(ctx context.Context, root *cobra.Command, args []string) error {
	root.SetArgs(args)
	if err := CheckGroups(root, args); err != nil {
		return err
	}
	return root.ExecuteContext(ctx)
}
