package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/qnnruntime"
	"github.com/sdnpu/sdnpu/internal/rootfile"
)

// wheelFile is an open wheel in a file of our own, whose checksum was compared. Close
// deletes the file, unless the wheel was kept.
type wheelFile struct {
	*os.File
	temporary bool
	label     string // label is the name of the wheel in messages
	name      string // name is the file name of a downloaded wheel in the package index
}

// keptName returns the path of a wheel that is kept for a second call. No other program
// uses names that begin with ".fetched-", so a file at this path may be deleted.
func keptName(folder, wheel string) string {
	return filepath.Join(folder, ".fetched-"+filepath.Base(wheel))
}

// open opens the wheel that the flag --from names, or one that an earlier call kept;
// otherwise it downloads one.
func (f *runtimeFlags) open(ctx context.Context, stderr io.Writer, target qnnruntime.Target, folder string) (*wheelFile, error) {
	if f.from != "" {
		return f.openNamed()
	}
	index := qnnruntime.Index{URL: cmp.Or(f.index, os.Getenv("PIP_INDEX_URL"))}
	wheel, err := index.Find(ctx, f.version, target)
	if err != nil {
		return nil, err
	}
	if err := wheel.CheckPin(f.sum); err != nil {
		return nil, err
	}
	if kept, err := openKept(folder, wheel); err == nil {
		return kept, nil // a kept wheel that cannot be used is downloaded again
	}
	file, err := os.CreateTemp("", "sdnpu-wheel-*")
	if err != nil {
		return nil, err
	}
	w := &wheelFile{file, true, wheel.Name, wheel.Name}
	progress, done := byteBar(stderr, "downloading "+wheel.Name)
	defer done()
	if err := index.Fetch(ctx, wheel, file, progress); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// openNamed copies the wheel of --from and opens the copy. The wheel is read once, so
// its owner cannot change it after its checksum was compared. The checksum must be
// that of --sha256 or, without the flag, one that this program knows: the checksums
// inside a wheel prove nothing about who made it.
func (f *runtimeFlags) openNamed() (*wheelFile, error) {
	from, err := os.Open(f.from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }() // an error of closing does not matter after reading
	file, err := os.CreateTemp("", "sdnpu-wheel-*")
	if err != nil {
		return nil, err
	}
	w := &wheelFile{File: file, temporary: true, label: f.from}
	sum, _, err := rootfile.Sum(io.TeeReader(from, file))
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if f.sum == "" && !qnnruntime.Pinned(sum) {
		err := fmt.Errorf("%s: %w: it has the SHA-256 %s: if the one who made it confirms this checksum, run it again with --sha256 %s",
			f.from, qnnruntime.ErrPin, sum, sum)
		return nil, errors.Join(err, w.Close())
	}
	if f.sum != "" && !strings.EqualFold(f.sum, sum) {
		return nil, errors.Join(fmt.Errorf("%s: %w: it has %s, want %s", f.from, qnnruntime.ErrChecksum, sum, f.sum), w.Close())
	}
	return w, nil
}

// openKept opens a wheel that an earlier call of the command kept. If the kept wheel
// has a wrong checksum, openKept deletes it.
func openKept(folder string, wheel qnnruntime.Wheel) (*wheelFile, error) {
	file, err := os.Open(keptName(folder, wheel.Name))
	if err != nil {
		return nil, err
	}
	sum, _, err := rootfile.Sum(file)
	if err == nil && !strings.EqualFold(sum, wheel.SHA256) {
		err = qnnruntime.ErrChecksum
	}
	w := &wheelFile{file, true, wheel.Name, wheel.Name}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// keep stores a downloaded wheel in the folder, where a later call of the command finds
// it. A copy of the user's own wheel is not stored.
func (w *wheelFile) keep(folder *os.Root) error {
	if w.name == "" {
		return nil
	}
	to := keptName(folder.Name(), w.name)
	if to == w.Name() {
		w.temporary = false
		return nil
	}
	if _, err := w.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := folder.Remove(filepath.Base(to)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return rootfile.Create(folder, filepath.Base(to), w.File, 0o644)
}

// Close closes the file, and deletes it unless the wheel was kept.
func (w *wheelFile) Close() error {
	err := w.File.Close()
	if w.temporary {
		err = errors.Join(err, os.Remove(w.Name()))
	}
	return err
}
