package ollama

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/internal/trust"
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

// TestOriginalOfOthersIsRefused requires that Ollama's own llama-server is refused if another
// user can change or owns the file, because it would run with this user's rights.
func TestOriginalOfOthersIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes do not make a file writable for others here")
	}
	folder := t.TempDir()
	path := filepath.Join(folder, OriginalName)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600))
	find := func(want error) {
		t.Helper()
		for _, named := range []string{path, ""} {
			found, err := FindOriginal(named, []string{folder})
			require.ErrorIs(t, err, want, "SDNPU_ORIGINAL=%s", named)
			if want == nil {
				require.Equal(t, path, found)
			} else {
				require.Empty(t, found)
			}
		}
	}
	for _, entry := range []string{path, folder} {
		require.NoError(t, os.Chmod(entry, 0o777)) //nolint:gosec // what must be refused
		find(trust.ErrUntrusted)
		require.NoError(t, os.Chmod(entry, 0o755)) //nolint:gosec // a program and its folder
		find(nil)
	}
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(path, 1234, 1234))
		find(trust.ErrUntrusted)
	}
}
