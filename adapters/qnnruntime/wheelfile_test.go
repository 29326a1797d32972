package qnnruntime

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWheelIsReadOnce changes a wheel after its checksum was compared.
func TestWheelIsReadOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	data := bytes.Repeat([]byte("wheel"), 1000)
	path := filepath.Join(t.TempDir(), "own.whl")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	wheel, err := Source{File: path, SHA256: fmt.Sprintf("%x", sha256.Sum256(data))}.Open(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), len(data)), 0o600))
	got, err := io.ReadAll(io.NewSectionReader(wheel, 0, 1<<30))
	require.NoError(t, err)
	require.Equal(t, data, got)
	require.NoError(t, wheel.Close())
	require.NoFileExists(t, wheel.Name())
	require.FileExists(t, path)
}
