package main

import (
	"cmp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/backend/model"
)

func TestHelpNamesEveryRecipe(t *testing.T) {
	flags := 0
	for _, cmd := range newCommand().Commands() {
		f := cmd.Flags().Lookup("recipe")
		if f == nil {
			continue
		}
		flags++
		for _, r := range model.Recipes {
			if cmd.Name() == "calibrate" && !r.NeedsRanges() {
				require.NotContains(t, f.Usage, " "+r.Name+",", cmd.Name())
				continue
			}
			require.Contains(t, f.Usage, r.Name, cmd.Name())
		}
	}
	require.GreaterOrEqual(t, flags, 6)
	key, err := config.Find("recipe")
	require.NoError(t, err)
	for _, r := range model.Recipes {
		require.Contains(t, key.Doc, r.Name)
	}
}

func TestHelpOfKeysHasTwoColumns(t *testing.T) {
	help := keyHelp()
	for _, k := range config.Keys {
		require.Regexp(t, `(?m)^  `+k.Name[len(config.Prefix):]+`  +[^ ]`, help)
	}
	require.NotContains(t, help, "(default )")
}

// everyCommand returns all commands that the help lists.
func everyCommand(cmd *cobra.Command) (list []*cobra.Command) {
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			list = append(append(list, c), everyCommand(c)...)
		}
	}
	return list
}

// Flags with one name have the same type and help in each command, and each number
// has a default in its help.
func TestFlagsWithOneNameAgree(t *testing.T) {
	types, shorthands := map[string]string{}, map[string]string{}
	for _, cmd := range everyCommand(newCommand()) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			name := cmd.CommandPath() + " --" + f.Name
			switch f.Name {
			case "as", "rows", "blocks", "prompt", "draft", "accept", "db", "plan": // in bench commands, the flags of these names take lists
			default:
				require.Equal(t, cmp.Or(types[f.Name], f.Value.Type()), f.Value.Type(), name)
				types[f.Name] = f.Value.Type()
				require.Equal(t, cmp.Or(shorthands[f.Name], f.Shorthand), f.Shorthand, name)
				shorthands[f.Name] = f.Shorthand
			}
			if _, required := f.Annotations[cobra.BashCompOneRequiredFlag]; required {
				require.Contains(t, f.Usage, "(required)", name)
				return
			}
			switch f.Value.Type() {
			case "int", "int64", "float32", "float64":
				require.True(t, f.DefValue != "0" || strings.Contains(f.Usage, "(default"), name)
			}
			if f.Name == "library" {
				require.Contains(t, f.Usage, "(default: SDNPU_LIBRARY, else the installed one)", name)
			}
			if usage := map[string]string{"rows": rowsUsage, "blocks": blocksUsage, "context": contextUsage}[f.Name]; strings.Contains(f.Usage, "the model's") {
				require.Contains(t, f.Usage, usage, name)
			}
		})
	}
	require.Greater(t, len(types), 35)
}

func TestHelpNamesCommandsAndVariables(t *testing.T) {
	help, err := sdnpu(t, "help")
	require.NoError(t, err)
	for _, v := range launch.Variables {
		require.Contains(t, help, "  "+v.Name+" ")
	}
	for _, line := range strings.Split(help, "\n") {
		if command, ok := strings.CutPrefix(line, "  sdnpu "); ok && !strings.HasPrefix(command, "[") {
			require.NoError(t, cmdline.CheckGroups(newCommand(), strings.Fields(command)[:1]), line)
		}
	}
}

func TestShortHelpFitsOnALine(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			require.LessOrEqual(t, len(c.Short), 60, c.CommandPath())
			walk(c)
		}
	}
	walk(newCommand())
}
