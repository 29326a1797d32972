//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// takeStdout returns what was stdout; from now on stdout is another name of
// stderr, for libraries that print.
func takeStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.Dup2(2, 1); err != nil {
		return nil, os.NewSyscallError("dup2", err)
	}
	return os.NewFile(uintptr(fd), "stdout"), nil
}
