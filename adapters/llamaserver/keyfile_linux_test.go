package llamaserver

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestKeyFilesOfOthersAndSpecialFilesAreRefused checks that such a file neither decides
// who may use the server, nor makes its start wait or take memory.
func TestKeyFilesOfOthersAndSpecialFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, large, open := filepath.Join(dir, "pipe"), filepath.Join(dir, "large"), filepath.Join(dir, "open")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	require.NoError(t, os.WriteFile(large, []byte("key\n"), 0o600))
	require.NoError(t, os.Truncate(large, 6<<30)) // takes no space on the disk
	require.NoError(t, os.WriteFile(open, []byte("key\n"), 0o600))
	require.NoError(t, os.Chmod(open, 0o666))
	for path, want := range map[string]string{
		pipe: "is not a regular file", dir: "is not a regular file", "/dev/zero": "is not a regular file",
		large: "want at most 1048576", open: "other users can change it",
	} {
		ended := make(chan error, 1)
		go func() {
			_, err := readKeys(path)
			ended <- err
		}()
		select {
		case err := <-ended:
			require.ErrorContains(t, err, want)
		case <-time.After(10 * time.Second):
			t.Fatalf("reading %s does not end", path)
		}
	}
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(open, 0o600))
		require.NoError(t, os.Chown(open, 12345, 12345))
		_, err := readKeys(open)
		require.ErrorContains(t, err, "other users can change it")
	}
}

func TestEachLineOfAKeyFileIsAKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte("one\n# two\n"), 0o644))
	keys, err := readKeys(path)
	require.NoError(t, err)
	require.Equal(t, []string{"one", "# two"}, keys)
}
