// Package filelock locks files among processes.
//
// A lock is advisory, on an open file, and gone when the file is closed, by the
// end of its process at the latest. It says nothing about who holds it, and
// where a file system has no locks it fails, which callers may ignore.
package filelock

import "errors"

// ErrHeld is returned when somebody else's lock forbids one.
var ErrHeld = errors.New("held by another")
