//go:build unix

package cmdline

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestNewFilesAreNotWritableByOthers(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	for mask, want := range map[int]os.FileMode{0: 0o644, 0o002: 0o644, 0o022: 0o644, 0o077: 0o600} {
		unix.Umask(mask)
		protectNewFiles()
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, nil, 0o666))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), "umask %#o", mask)
	}
}
