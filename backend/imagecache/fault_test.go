package imagecache

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var errDiskFull = errors.New("no space left on device")

// disk is a file system that fails after some bytes or at some call.
type disk struct {
	room  int    // room is the number of bytes that can still be written to the disk
	fails string // fails names the call that fails: "create", "writeat", "sync" or "close"
}

func (d *disk) create(dir string) (file, error) {
	if d.fails == "create" {
		return nil, errDiskFull
	}
	f, err := createTemp(dir)
	return &fullFile{f, d}, err
}

type fullFile struct {
	file
	disk *disk
}

func (f *fullFile) Write(p []byte) (int, error) {
	n := min(len(p), f.disk.room)
	f.disk.room -= n
	n, err := f.file.Write(p[:n])
	if err == nil && n < len(p) {
		err = errDiskFull
	}
	return n, err
}

func (f *fullFile) WriteAt(p []byte, off int64) (int, error) {
	if f.disk.fails == "writeat" {
		return 0, errDiskFull
	}
	return f.file.WriteAt(p, off)
}

func (f *fullFile) Sync() error {
	if f.disk.fails == "sync" {
		return errDiskFull
	}
	return f.file.Sync()
}

func (f *fullFile) Close() error {
	err := f.file.Close()
	if f.disk.fails == "close" {
		return errDiskFull
	}
	return err
}

func TestFailingDiskKeepsOldImage(t *testing.T) {
	s, _ := open(t)
	key, old, image := keyOf("a"), []byte("old"), bytes.Repeat([]byte("new "), 100)
	require.NoError(t, s.Put(key, nil, fillWith(old)))
	whole := headerSize + len(image)
	disks := []*disk{{whole, "create"}, {whole, "writeat"}, {whole, "sync"}, {whole, "close"}}
	for room := 0; room < whole; room += 7 {
		disks = append(disks, &disk{room: room})
	}
	disks = append(disks, &disk{room: headerSize}, &disk{room: whole - 1})
	fills := map[string]func(io.Writer) error{
		"honest": fillWith(image),
		"hides the error": func(w io.Writer) error {
			w.Write(image)     //nolint:errcheck // the failure is tested
			w.Write([]byte{1}) //nolint:errcheck // must fail again
			return nil
		},
	}
	for _, broken := range disks {
		for name, fill := range fills {
			copied := *broken
			s.create = copied.create
			err := s.Put(key, nil, fill)
			require.ErrorIs(t, err, ErrStore, "%+v %s", broken, name)
			require.ErrorIs(t, err, errDiskFull, "%+v %s", broken, name)
			requireImage(t, s, key, old)
			requireFiles(t, s, filepath.Base(s.path(key)))
		}
	}
	s.create = (&disk{room: whole}).create
	require.NoError(t, s.Put(key, nil, fillWith(image)))
	requireImage(t, s, key, image)
}
