package findings

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/atomicfile"
	"github.com/sdnpu/sdnpu/backend/model"
)

func TestResultsThatOthersCanChangeAreNotUsed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	s := Store{Cache: t.TempDir()}
	recipe, err := model.FindRecipe("f16")
	require.NoError(t, err)
	check := checked(1000, 1, 1, 0)
	check.Digest, check.Recipe = "d", recipe.Name
	require.NoError(t, s.KeepCheck(t.Context(), check))
	flips := FlipsFile{Digest: "d"}
	flips.Positions = 64
	require.NoError(t, atomicfile.WriteJSON(t.Context(), s.flipsPath(flips), flips))
	for _, path := range []string{s.checkPath("d", recipe.Name), s.flipsPath(flips), s.Cache} {
		_, known := s.LastCheck("d", recipe)
		require.True(t, known)
		require.NotNil(t, s.KnownFlips(flips))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(path, info.Mode().Perm()|0o002))
		_, known = s.LastCheck("d", recipe)
		require.False(t, known && s.KnownFlips(flips) != nil, path)
		require.NoError(t, os.Chmod(path, info.Mode().Perm()))
	}
}
