package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends what does not heed the first
	if err := dispatch(ctx, os.Args); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = errInterrupted
		}
		// Ollama shows what follows "error:" to its user.
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// errInterrupted stands for what the interrupted work says of it.
var errInterrupted = errors.New("interrupted")

// dispatch acts as what the program was called.
func dispatch(ctx context.Context, args []string) error {
	switch strings.TrimSuffix(filepath.Base(args[0]), ".exe") {
	case "llama-server":
		return serveRunner(ctx, args)
	case "llama-quantize":
		return quantizeStandIn(ctx, os.Stdout, args[1:])
	case originalName:
		return errOriginalIsUs
	}
	root := newCommand()
	root.SetArgs(args[1:])
	if err := checkGroups(root, args[1:]); err != nil {
		return err
	}
	return root.ExecuteContext(ctx)
}

// checkGroups refuses a command that there is not even where --help stands
// behind it, or help before it: that would be answered with the help of the group.
func checkGroups(root *cobra.Command, args []string) error {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) { // the shell asks: it is added later
		return nil
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultHelpFlag()
	root.InitDefaultCompletionCmd(args...)
	if len(args) > 0 && args[0] == "help" {
		args = args[1:]
	}
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.HasSubCommands() {
		return err
	}
	return noArguments(cmd, slices.DeleteFunc(slices.Clone(rest), func(a string) bool { return strings.HasPrefix(a, "-") }))
}

// noArguments refuses any: of a group they would be the name of a command.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return fmt.Errorf("unknown command %q: see %s --help", config.Short(args[0]), cmd.CommandPath())
	}
	return fmt.Errorf("%s takes no argument, and %q is one: see %s --help", cmd.Name(), config.Short(args[0]), cmd.CommandPath())
}

// oneArgument wants exactly one argument and says which.
func oneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s: one %s wanted, %d given: see %s --help", cmd.Name(), name, len(args), cmd.CommandPath())
		}
		return noEmptyName(cmd, name, args)
	}
}

// upToOneArgument takes none as well.
func upToOneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%s: one %s at most wanted, %d given: see %s --help", cmd.Name(), name, len(args), cmd.CommandPath())
		}
		return noEmptyName(cmd, name, args)
	}
}

// noEmptyName refuses what a shell makes of a variable that is not set.
func noEmptyName(cmd *cobra.Command, name string, args []string) error {
	if slices.Contains(args, "") {
		return fmt.Errorf("%s: one %s wanted, an empty name given: see %s --help", cmd.Name(), name, cmd.CommandPath())
	}
	return nil
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "sdnpu",
		Short:         "Run GGUF models on the Qualcomm Hexagon NPU, under Ollama or alone",
		Long:          rootLong(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: see %s --help", sayFlag(err), cmd.CommandPath())
	})
	root.Version = version()
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newRunCommand(),
		newSelectCommand(),
		newInstallCommand(),
		newRuntimeCommand(),
		newDoctorCommand(),
		newCacheCommand(),
		newEmulatorCommand(),
		newBenchCommand(),
		newCalibrateCommand(),
		newCheckCommand(),
		newTimelineCommand(),
		newProfileCommand(),
		newCompileCommand(),
		newExecuteCommand(),
		newDatabaseCommand(),
		newPrepareCommand(),
		newEstimateCommand(),
		newVersionCommand(),
	)
	tellOfHelp(root)
	return root
}

// tellOfHelp makes errors of arguments and of flags that are missing name the
// help, in every command.
func tellOfHelp(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		tellOfHelp(c)
	}
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { // cobra looks at them after it
		return withHelp(cmd, cmp.Or(checkRequiredFlags(cmd), checkFlagGroups(cmd)))
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return withHelp(cmd, check(cmd, args)) }
	}
}

// withHelp makes an error name the command's help.
func withHelp(cmd *cobra.Command, err error) error {
	if err != nil && !strings.Contains(err.Error(), "--help") {
		err = fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())
	}
	return err
}
