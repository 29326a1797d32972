package imagecache

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/internal/trust"
)

func TestFolderThatOthersCanChangeIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "images")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for _, mode := range []os.FileMode{0o777, 0o702, os.ModeSticky | 0o777} {
		require.NoError(t, os.Chmod(dir, mode))
		_, err := Open(dir, Options{})
		require.ErrorIs(t, err, trust.ErrUntrusted, "%v", mode)
		require.ErrorContains(t, err, dir)
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	_, err := Open(dir, Options{})
	require.NoError(t, err)
}

func TestImageThatOthersCanChangeIsNotUsed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	s, log := open(t)
	key := keyOf("graph")
	require.NoError(t, s.Put(key, Label{}, fillWith([]byte("image"))))
	requireImage(t, s, key, []byte("image"))
	require.NoError(t, os.Chmod(s.path(key), 0o606))
	_, err := s.Get(key)
	require.ErrorIs(t, err, ErrMiss)
	require.Contains(t, log.String(), "chmod go-w "+s.path(key))
}
