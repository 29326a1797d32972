package launch

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutAHomeTheCacheFolderIsPrivate(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test sets variables of Linux")
	}
	temp := t.TempDir()
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("TMPDIR", temp)
	for range 2 { // the first call makes it, the second finds it
		folder, err := CacheFolder("images")
		require.NoError(t, err)
		require.Equal(t, temp, filepath.Dir(filepath.Dir(folder)))
	}
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	base := filepath.Join(temp, entries[0].Name())
	require.NoError(t, os.Chmod(base, 0o777))
	_, err = CacheFolder("images")
	require.ErrorContains(t, err, "not a folder that belongs to this user alone")
	require.NoError(t, os.Remove(base))
	require.NoError(t, os.Symlink(t.TempDir(), base))
	_, err = CacheFolder("images")
	require.ErrorContains(t, err, "not a folder that belongs to this user alone")
}
