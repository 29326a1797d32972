package mapped

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
)

// ErrGone is returned when bytes of a mapped file cannot be read any more.
var ErrGone = errors.New("the file was shortened, or cannot be read any more, after it was opened")

// Guard calls read, which reads mapped bytes. Where the file no longer reaches
// that far, or its disk fails, the error is [ErrGone] and the process lives on.
// It holds for Go code of this goroutine and costs some ten nanoseconds.
func Guard(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case interface {
			runtime.Error
			Addr() uintptr // what tells faults from our own mistakes
		}:
			err = fmt.Errorf("mapped: %w", ErrGone)
		default:
			panic(reason)
		}
	}()
	return read()
}
