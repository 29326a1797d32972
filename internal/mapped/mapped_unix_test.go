//go:build unix

package mapped_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdnpu/sdnpu/internal/mapped"
)

func TestOpenRejectsPipeWithoutWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	_, err := mapped.Open(path)
	require.ErrorContains(t, err, "not a regular file")
}
