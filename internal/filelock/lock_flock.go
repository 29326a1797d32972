//go:build linux || darwin || freebsd

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Try locks f until it is closed: shared, or exclusive if exclusive is true. It
// does not wait. It returns [ErrHeld] if another open file holds a conflicting
// lock.
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
