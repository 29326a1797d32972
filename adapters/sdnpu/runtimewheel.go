package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/qnnruntime"
)

// wheelFile is an opened wheel. One that was fetched is gone when it is closed,
// unless it is kept.
type wheelFile struct {
	*os.File
	temporary bool
	name      string // of a fetched one, in the index
}

// keptName is a name that nobody else gives a file: what bears it is removed.
func keptName(folder, wheel string) string {
	return filepath.Join(folder, ".fetched-"+filepath.Base(wheel))
}

// open opens the wheel: the one that --from names, one that an earlier call kept
// in the folder, or one that it fetches.
func (f *runtimeFlags) open(ctx context.Context, stderr io.Writer, target qnnruntime.Target, folder string) (*wheelFile, error) {
	if f.from != "" {
		file, err := os.Open(f.from)
		return &wheelFile{File: file}, err
	}
	index := qnnruntime.Index{URL: cmp.Or(f.index, os.Getenv("PIP_INDEX_URL"))}
	wheel, err := index.Find(ctx, f.version, target)
	if err != nil {
		return nil, err
	}
	if kept, err := openKept(folder, wheel); err == nil {
		return kept, nil // any trouble with it is worth another download
	}
	file, err := os.CreateTemp("", "sdnpu-wheel-*")
	if err != nil {
		return nil, err
	}
	w := &wheelFile{file, true, wheel.Name}
	progress, done := byteBar(stderr, "fetching "+wheel.Name)
	defer done()
	if err := index.Fetch(ctx, wheel, file, progress); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// openKept opens a kept wheel whose sum is the index's, and removes another.
func openKept(folder string, wheel qnnruntime.Wheel) (_ *wheelFile, err error) {
	file, err := os.Open(keptName(folder, wheel.Name))
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	if _, err = io.Copy(sum, file); err == nil && !strings.EqualFold(hex.EncodeToString(sum.Sum(nil)), wheel.SHA256) {
		err = qnnruntime.ErrChecksum
	}
	w := &wheelFile{file, true, wheel.Name}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// keep leaves a fetched wheel in the folder, where open finds it.
func (w *wheelFile) keep(folder string) error {
	to := keptName(folder, w.name)
	if !w.temporary || to == w.Name() {
		w.temporary = false
		return nil
	}
	if _, err := w.Seek(0, io.SeekStart); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, w.File)
	return errors.Join(err, out.Close()) // half of one has another sum
}

// Close closes the file, and removes one that nobody needs again.
func (w *wheelFile) Close() error {
	err := w.File.Close()
	if w.temporary {
		err = errors.Join(err, os.Remove(w.Name()))
	}
	return err
}
