// Package filelock locks files against other processes.
//
// A file lock is advisory: it stops only programs that also try to take the lock. A file
// lock belongs to an open file. The operating system releases a lock when its file is
// closed, at the latest when the process ends. Package filelock cannot tell which process
// holds a lock. On a file system without locks, [Try] fails. Callers of [Try] that can work
// without a lock may ignore the error.
//
// [Try] never waits and costs one system call.
package filelock

import "errors"

// ErrHeld is returned when another open file, usually of another process, holds a
// conflicting lock.
var ErrHeld = errors.New("the file is locked by another process")
