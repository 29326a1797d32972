package launch

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMisspeltVariablesAreFoundWithASuggestion(t *testing.T) {
	for name, meant := range map[string]string{
		"SDNPU_RECPIE": "SDNPU_RECIPE", "SDNPU_LIBARY": "SDNPU_LIBRARY", "SDNPU_CACHESIZE": "SDNPU_CACHE_SIZE",
		"sdnpu_rows": "SDNPU_ROWS", "SDNPU_BLOCK": "SDNPU_BLOCKS", "SDNPU_SOCS": "SDNPU_SOC",
	} {
		found := VariableProblems([]string{"PATH=/bin", "SDNPU_ROWS=8", name + "=1", "SDNPU_VENDOR=x", "XSDNPU_ROWS=1"})
		require.Len(t, found, 1, name)
		require.Contains(t, found[0], name+" is not a setting and is ignored: did you mean "+meant+"?")
	}
	found := VariableProblems([]string{"SDNPU_COFFEE_WITH_MILK"})
	require.Len(t, found, 1)
	require.NotContains(t, found[0], "did you mean")
	require.Contains(t, found[0], "want one of SDNPU_LIBRARY")
}

// Programs under test inherit the variables of make and CI.
func TestVariablesOfTheBuildAreNotMisspelt(t *testing.T) {
	files, err := filepath.Glob("../../.ci/*")
	require.NoError(t, err)
	var ours []string
	for _, path := range append(files, "../../Makefile") {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		ours = append(ours, regexp.MustCompile(`SDNPU_[A-Z_]+`).FindAllString(string(text), -1)...)
	}
	require.Contains(t, ours, "SDNPU_MODELS")
	require.Empty(t, VariableProblems(ours))
}
