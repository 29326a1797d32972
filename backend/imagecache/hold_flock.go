//go:build linux || darwin || freebsd

package imagecache

import (
	"os"
	"syscall"
)

// hold marks a file as being written until it is closed, by its process's end
// at the latest. Where the file system cannot, its age decides.
func hold(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// abandoned reports whether nobody holds a file any more.
func abandoned(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
