package imagecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sdnpu/sdnpu/backend/filelock"
)

// lockPoll is how often a waiter looks whether a lock is free: a wait for the
// lock itself could not be cancelled.
const lockPoll = 50 * time.Millisecond

// Lock makes the caller the only one who makes the image of a key, among all
// processes that share the folder. When it has to wait it says so by calling
// waits; whoever held the lock has then most likely put the image. It is
// [ErrStore] where the folder cannot be written, and ctx's error.
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

// openHeld opens a file and locks it until it is closed: exclusively, or beside
// other readers. The lock is on the file that is at path: one that is removed
// or replaced in between is let go. Somebody else's lock is filelock.ErrHeld. Where the
// file system has no locks the file comes without.
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

// removeHeld removes a file that is held exclusively, and lets go of it. In
// this order nobody can lock the file after it is gone from its path; Windows
// removes no open file.
func removeHeld(f *os.File, path string) error {
	err := os.Remove(path)
	if closed := f.Close(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(path)
		return errors.Join(err, closed)
	}
	return nil
}
