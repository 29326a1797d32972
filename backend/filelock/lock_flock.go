//go:build linux || darwin || freebsd

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Try locks a file until it is closed, by its process's end at the latest.
// It returns ErrHeld when somebody else's lock forbids it.
func Try(f *os.File, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrHeld
		default: // the file system has no locks
			return os.NewSyscallError("flock", err)
		}
	}
}
