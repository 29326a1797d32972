package enable

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that was killed while it wrote the journal leaves a temporary file.
func TestNextHolderRemovesATemporaryJournal(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "enable")
	j, err := openJournal(folder, "http://127.0.0.1:1")
	require.NoError(t, err)
	left := filepath.Join(folder, "."+filepath.Base(j.path)+"-123")
	require.NoError(t, os.WriteFile(left, []byte("{"), 0o600))
	require.NoError(t, j.close())
	require.FileExists(t, left)
	j, err = openJournal(folder, "http://127.0.0.1:1")
	require.NoError(t, err)
	require.NoFileExists(t, left)
	require.NoError(t, j.close())
	require.NoDirExists(t, folder)
}
