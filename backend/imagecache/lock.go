package imagecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sdnpu/sdnpu/internal/filelock"
)

// lockPoll is the interval at which a waiter tries the lock. A wait inside the lock call could not
// be cancelled, so Lock polls.
const lockPoll = 50 * time.Millisecond

// Lock makes the caller the only one, among all processes that share the
// folder, that makes the image of a key. If it has to wait, it calls waits
// once; the holder has then probably put the image. If the folder cannot be
// written, the error is [ErrStore]. Lock returns the error of ctx if that ends
// first.
func (s *Store) Lock(ctx context.Context, key string, waits func()) (release func(), err error) {
	if _, err := parseKey(key); err != nil {
		return nil, err
	}
	path := s.lockPath(key)
	for waited := false; ; {
		f, err := openHeld(path, os.O_CREATE|os.O_RDWR, true)
		if err == nil {
			return func() { removeHeld(f, path) }, nil
		}
		if !errors.Is(err, filelock.ErrHeld) {
			return nil, storeError(key, err)
		}
		if !waited {
			waits()
		}
		waited = true
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("imagecache: wait for %s: %w", key, ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}

func (s *Store) lockPath(key string) string { return filepath.Join(s.dir, key+lockSuffix) }

// openHeld opens a file and locks it until it is closed: exclusively, or
// shared. If the file at path is removed or replaced before the lock is taken,
// openHeld tries again. If another process holds the lock, the error is
// filelock.ErrHeld. If the file system has no locks, the file is not locked.
func openHeld(path string, flag int, exclusive bool) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, flag, 0o600)
		if err != nil {
			return nil, err
		}
		if err := filelock.Try(f, exclusive); errors.Is(err, filelock.ErrHeld) {
			return nil, errors.Join(filelock.ErrHeld, f.Close())
		}
		ours, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		there, err := os.Stat(path)
		if err == nil && os.SameFile(ours, there) {
			return f, nil
		}
		if closed := f.Close(); closed != nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, closed)
		}
	}
}

// removeHeld removes and closes a file that is locked exclusively. It removes
// first, so that no other process can lock the file afterwards. Windows cannot
// remove an open file, so the second attempt follows Close.
func removeHeld(f *os.File, path string) error {
	err := os.Remove(path)
	if closed := f.Close(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(path)
		return errors.Join(err, closed)
	}
	return nil
}
