package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/sdnpu/sdnpu/backend/filelock"
)

// A checkup with --fresh holds the lock of a file in its folder. Folders have it
// for freshAge at least before they are looked at: it is made first, then held.
const (
	freshFolders = "doctor-*"
	freshLock    = "doctor.lock"
	freshAge     = time.Minute
)

// removeLeftFolders removes the folders of checkups that were killed. What it
// cannot remove stays: nothing depends on it.
func removeLeftFolders(parent string) {
	locks, _ := filepath.Glob(filepath.Join(parent, freshFolders, freshLock)) // the pattern is ours
	for _, path := range locks {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		left := err == nil && time.Since(info.ModTime()) > freshAge && filelock.Try(f, true) == nil
		_ = f.Close() // it was only read; Windows removes no open file
		if left {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
}
