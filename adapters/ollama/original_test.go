package ollama

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThisProgramIsNotItsOwnOriginal(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), "llama-server")
	if err := os.Symlink(self, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	_, err = FindOriginal(link, nil)
	require.ErrorIs(t, err, ErrOriginalIsUs)

	require.NoError(t, os.Symlink(self, filepath.Join(filepath.Dir(link), "llama-server.orig")))
	found, err := FindOriginal("", []string{filepath.Dir(link)})
	require.NoError(t, err)
	require.Empty(t, found, "a link to this program is no original")
}
