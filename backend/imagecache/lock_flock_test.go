//go:build linux || darwin || freebsd

package imagecache

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFilesOfDeadWritersAreRemoved(t *testing.T) {
	s, _ := open(t)
	writing, err := createTemp(s.Dir())
	require.NoError(t, err)
	dead := filepath.Join(s.Dir(), "put-dead.tmp")
	require.NoError(t, os.WriteFile(dead, nil, 0o600))
	young := filepath.Join(s.Dir(), "put-young.tmp")
	require.NoError(t, os.WriteFile(young, nil, 0o600))
	when := time.Now().Add(-2 * deadAge)
	free := filepath.Join(s.Dir(), keyOf("free")+lockSuffix)
	require.NoError(t, os.WriteFile(free, nil, 0o600))
	release, err := s.Lock(t.Context(), keyOf("held"), func() {})
	require.NoError(t, err)
	for _, name := range []string{writing.Name(), dead, free, s.lockPath(keyOf("held"))} {
		require.NoError(t, os.Chtimes(name, when, when))
	}
	_, err = Open(s.Dir(), Options{})
	require.NoError(t, err)
	requireFiles(t, s, filepath.Base(writing.Name()), "put-young.tmp", filepath.Base(s.lockPath(keyOf("held"))))
	release()

	require.NoError(t, writing.Close()) // closing the file releases its lock, as the end of the process would
	_, err = Open(s.Dir(), Options{})
	require.NoError(t, err)
	requireFiles(t, s, "put-young.tmp")
}
