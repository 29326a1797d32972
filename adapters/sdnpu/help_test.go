package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend/model"
)

// TestHelpNamesEveryRecipe that a flag takes, and explains it with the keys.
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
				require.NotContains(t, f.Usage, r.Name+",", cmd.Name())
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
