package cmdline

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// program returns a command tree with a group, "tools", and a command in it.
func program() *cobra.Command {
	root := &cobra.Command{Use: "program", Args: NoArguments, RunE: Help}
	root.SetOut(io.Discard)
	draw := &cobra.Command{Use: "draw FILE", Args: OneArgument("FILE"), RunE: func(*cobra.Command, []string) error { return nil }}
	draw.Flags().Int("rows", 1, "rows")
	draw.Flags().String("output", "", "file")
	draw.Flags().StringToString("accept", nil, "pairs")
	_ = draw.MarkFlagRequired("output")
	list := &cobra.Command{Use: "list [FOLDER]", Args: UpToOneArgument("FOLDER"), RunE: Help}
	tools := &cobra.Command{Use: "tools", Args: NoArguments, RunE: Help}
	tools.AddCommand(draw, list)
	root.AddCommand(tools)
	Prepare(root)
	return root
}

func TestErrorsNameTheProblemAndTheHelp(t *testing.T) {
	for line, want := range map[string]string{
		"nonsense":                `unknown command "nonsense"`,
		"nonsense --help":         `unknown command "nonsense"`,
		"tools nonsense --help":   `unknown command "nonsense": see program tools --help`,
		"help tools nonsense":     `unknown command "nonsense": see program tools --help`,
		"tools draw":              "draw: got 0 arguments, want one FILE: see program tools draw --help",
		"tools draw a b":          "draw: got 2 arguments, want one FILE: see program tools draw --help",
		"tools list a b":          "list: got 2 arguments, want at most one FOLDER: see program tools list --help",
		"tools list EMPTY":        "list: got an empty name, want at most one FOLDER: see program tools list --help",
		"tools draw a":            `draw: missing --output: see program tools draw --help`,
		"tools draw a --rows x":   "--rows x: want a whole number: see program tools draw --help",
		"tools draw a --accept x": "x must be formatted as key=value: see program tools draw --help",
		"tools draw a --nope":     "unknown flag: --nope: see program tools draw --help",
		"tools draw a --outpt b":  "unknown flag: --outpt (did you mean --output?): see program tools draw --help",
		"tools darw":              `unknown command "darw" (did you mean draw?): see program tools --help`,
		"tools draw a --output b": "",
		"tools list":              "",
		"tools --help":            "",
		"--help tools":            "",
	} {
		args := strings.Fields(line)
		for i, a := range args {
			if a == "EMPTY" {
				args[i] = ""
			}
		}
		err := Execute(t.Context(), program(), args)
		if want == "" {
			require.NoError(t, err, line)
			continue
		}
		require.ErrorContains(t, err, want, line)
	}
}

func TestALongFlagValueIsShortened(t *testing.T) {
	long := strings.Repeat("é", 5000)
	for _, flag := range []string{"--rows", "--accept"} {
		err := Execute(t.Context(), program(), []string{"tools", "draw", "a", flag, long})
		require.ErrorContains(t, err, "é…")
		require.Less(t, strings.Count(err.Error(), "é"), 300)
	}
}

func TestNoBarIsDrawnIntoAFile(t *testing.T) {
	require.False(t, IsTerminal(&strings.Builder{}))
}

func ExampleOneArgument() {
	cmd := &cobra.Command{Use: "draw FILE", Args: OneArgument("FILE")}
	fmt.Println(cmd.Args(cmd, nil))
	fmt.Println(cmd.Args(cmd, []string{"run.json"}))
	// Output:
	// draw: got 0 arguments, want one FILE
	// <nil>
}
