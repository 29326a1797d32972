package imagecache

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingImagesComeFromPreparedFolders(t *testing.T) {
	empty, full := t.TempDir(), t.TempDir()
	maker, err := Open(full, Options{})
	require.NoError(t, err)
	key, other := keyOf("prepared"), keyOf("other")
	require.NoError(t, maker.Put(key, nil, fillWith([]byte("from a PC"))))
	require.NoError(t, maker.Put(other, nil, fillWith([]byte("another"))))

	s, err := Open(t.TempDir(), Options{Prepared: []string{empty, filepath.Join(empty, "gone"), full}})
	require.NoError(t, err)
	require.True(t, s.Has(key))
	require.False(t, s.Has(keyOf("nowhere")))
	requireImage(t, s, key, []byte("from a PC"))
	list, err := s.List()
	require.NoError(t, err)
	require.Empty(t, list, "Get copies nothing")
	_, err = s.Get(keyOf("nowhere"))
	require.ErrorIs(t, err, ErrMiss)

	require.NoError(t, s.Put(key, nil, fillWith([]byte("our own"))))
	requireImage(t, s, key, []byte("our own"))

	path := filepath.Join(full, other+suffix)
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	file[len(file)-1] ^= 1
	require.NoError(t, os.WriteFile(path, file, 0o600))
	_, err = s.Get(other)
	require.ErrorIs(t, err, ErrMiss)
	require.FileExists(t, path, "prepared files stay")
}
