// Package filelock locks files among processes.
//
// A lock is advisory and belongs to an open file. The system releases it when the
// file is closed, at the latest when its process ends. Nothing tells which process
// holds a lock. On a file system without locks, [Try] fails; callers may ignore
// that error if they can work without a lock.
//
// [Try] never waits and costs one system call.
package filelock

import "errors"

// ErrHeld is returned when another open file holds a conflicting lock.
var ErrHeld = errors.New("held by another")
