package imagecache

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOpenImagesStayWhenTheirFilesChange changes the files of open images: in the cache, in a
// prepared folder, and while a process has the file open for writing.
func TestOpenImagesStayWhenTheirFilesChange(t *testing.T) {
	image := bytes.Repeat([]byte("image"), 5000)
	for _, c := range []struct {
		name     string
		prepared bool
		writer   bool // writer is set if a process has the image file open for writing while Get opens it
	}{{"cache", false, false}, {"prepared folder", true, false}, {"file that is open for writing", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			maker, _ := open(t)
			key := keyOf("a")
			require.NoError(t, maker.Put(key, nil, fillWith(image)))
			s := maker
			if c.prepared {
				var err error
				s, err = Open(t.TempDir(), Options{Prepared: []Prepared{{Dir: maker.Dir(), Own: true}}})
				require.NoError(t, err)
			}
			path := filepath.Join(maker.Dir(), key+suffix)
			if c.writer {
				w, err := os.OpenFile(path, os.O_WRONLY, 0)
				require.NoError(t, err)
				defer w.Close()
			}
			e, err := s.Get(key)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, []byte("short"), 0o600))
			require.True(t, bytes.Equal(image, e.Bytes()))
			require.NoError(t, e.Close())
			_, err = s.Get(key)
			require.ErrorIs(t, err, ErrMiss, "the next start finds the damage")
		})
	}
}
