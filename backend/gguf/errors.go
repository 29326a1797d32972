package gguf

import (
	"errors"
	"fmt"
)

var (
	// ErrMalformed is returned when a file breaks the rules of the format.
	ErrMalformed = errors.New("malformed file")
	// ErrTruncated is returned when a file ends before what it announces; it
	// is also an [ErrMalformed].
	ErrTruncated = fmt.Errorf("%w: truncated", ErrMalformed)
	// ErrMagic is returned when a file does not begin as GGUF does: most are of
	// another kind. It is also an [ErrMalformed].
	ErrMagic = fmt.Errorf("%w: no GGUF", ErrMalformed)
	// ErrUnsupported is returned when a file may be right but is of a kind that
	// this package does not read. It is also an [errors.ErrUnsupported].
	ErrUnsupported = fmt.Errorf("unsupported file: %w", errors.ErrUnsupported)
	// ErrNoKey is returned when a wanted key is not in the file.
	ErrNoKey = errors.New("gguf: no such key")
	// ErrKeyType is returned when a key is there with a value of another type
	// or out of range.
	ErrKeyType = errors.New("gguf: key of another type")
	// ErrNoTensor is returned when a wanted tensor is not in the file.
	ErrNoTensor = errors.New("gguf: no such tensor")
)
