package mapped

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
)

// ErrGone is returned when bytes of a mapped file can no longer be read.
var ErrGone = errors.New("the file was shortened, or cannot be read any more, after it was opened")

// Guard calls read, which reads mapped bytes, and returns its error. If the file
// was shortened or its disk fails, Guard returns [ErrGone] instead of ending the
// process. It protects Go code on the calling goroutine only, and costs about ten
// nanoseconds.
func Guard(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case interface {
			runtime.Error
			Addr() uintptr // only memory faults have it, not our own mistakes
		}:
			err = fmt.Errorf("mapped: %w", ErrGone)
		default:
			panic(reason)
		}
	}()
	return read()
}
