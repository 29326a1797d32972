package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/findings"
	"github.com/sdnpu/sdnpu/adapters/launch"
)

// TestTheSecondStartMeasuresNoTimes checks that the first start stores the times of the
// graphs, and that the second start only reads them. If drafts are off, no times are
// measured.
func TestTheSecondStartMeasuresNoTimes(t *testing.T) {
	useCache(t)
	s, err := launch.ReadSettings()
	require.NoError(t, err)
	run := func(mode string) (files []string) {
		_, err := sdnpu(t, "run", "--model", story, "--prompt", "One day", "-n", "2", "--json", "--context", "128", "--draft", mode)
		require.NoError(t, err)
		files, err = filepath.Glob(filepath.Join(s.Cache, findings.TimesFolder, "*"))
		require.NoError(t, err)
		return files
	}
	require.Empty(t, run("off"))
	files := run("auto")
	require.Len(t, files, 1)
	first, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Contains(t, string(first), `"body"`)
	require.Equal(t, files, run("auto"))
	again, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Equal(t, first, again, "measured times never agree to the last digit")
	require.NoError(t, os.WriteFile(files[0], first[:20], 0o600))
	require.Equal(t, files, run("auto"))
	again, err = os.ReadFile(files[0])
	require.NoError(t, err)
	require.Greater(t, len(again), 20, "a damaged file is measured again")
}
