package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sdnpu/sdnpu/internal/filelock"
)

// A fresh checkup holds the lock of a file in its folder. The file is created
// before the lock is taken, so a folder younger than freshAge counts as in use.
const (
	freshFolders = "doctor-*"
	freshLock    = "doctor.lock"
	freshAge     = time.Minute
)

// useFreshCache creates a folder next to the cache and uses it as the cache. The
// caller removes it with remove.
func (c *Checkup) useFreshCache() (remove func(), err error) {
	parent := c.Settings.CacheParent()
	removeAbandoned(parent)
	dir, err := os.MkdirTemp(parent, freshFolders)
	if err != nil {
		return nil, fmt.Errorf("--fresh: %w", err)
	}
	lock, err := os.Create(filepath.Join(dir, freshLock))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--fresh: %w", err), os.RemoveAll(dir))
	}
	_ = filelock.Try(lock, true) // on a file system without locks, folders of killed processes stay
	c.Settings.Cache, c.Settings.CacheSize = dir, "unlimited"
	return func() {
		if err := errors.Join(lock.Close(), os.RemoveAll(dir)); err != nil {
			c.Logger.Warn("cannot remove the folder of --fresh", "error", err)
		}
	}, nil
}

// removeAbandoned removes the folders of killed checkups. Errors do not matter,
// because nothing depends on these folders.
func removeAbandoned(parent string) {
	locks, _ := filepath.Glob(filepath.Join(parent, freshFolders, freshLock)) // the pattern is valid
	for _, path := range locks {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		abandoned := err == nil && time.Since(info.ModTime()) > freshAge && filelock.Try(f, true) == nil
		_ = f.Close() // Windows removes no open file
		if abandoned {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
}
