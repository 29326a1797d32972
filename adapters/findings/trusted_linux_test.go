package findings

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAPipeIsNoResult reads a pipe to which nothing is written: a read would never end.
func TestAPipeIsNoResult(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.json")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := readTrusted(path)
	require.ErrorIs(t, err, errNoResult)

	huge := filepath.Join(t.TempDir(), "huge.json")
	require.NoError(t, os.WriteFile(huge, nil, 0o600))
	require.NoError(t, os.Truncate(huge, 1<<40))
	_, err = readTrusted(huge)
	require.ErrorIs(t, err, errNoResult)
}
