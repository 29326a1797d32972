package compile

import "errors"

var (
	// ErrCrashed is returned when the child ended without an answer, which is
	// the library's doing or that of a system short of memory.
	ErrCrashed = errors.New("the QNN library crashed while it compiled")
	// ErrSilent is returned for a child that did nothing for too long.
	ErrSilent = errors.New("the QNN library hangs while it compiles")
	// ErrChanged is returned when the model's file holds something else than when
	// it was loaded.
	ErrChanged = errors.New("the model's file has changed since it was loaded")
)
