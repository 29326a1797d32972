package mapped

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeptFilesAreNotOpenedForWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("kept"), 0o600))
	r, err := os.Open(path)
	require.NoError(t, err)
	f, err := Keep(r, Keeping{Unguarded: true})
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Equal(t, Shared, f.Protection())
	_, err = os.OpenFile(path, os.O_WRONLY, 0)
	require.Error(t, err)
	require.Equal(t, "kept", string(f.Bytes()))
	require.NoError(t, f.Close())
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer w.Close()
	r, err = os.Open(path)
	require.NoError(t, err)
	defer r.Close()
	_, err = Keep(r, Keeping{Unguarded: true})
	require.ErrorIs(t, err, errChanged)
}
