package gguf

import (
	"errors"
	"fmt"
)

var (
	// ErrMalformed is returned when a file breaks the rules of the format.
	ErrMalformed = errors.New("malformed file")
	// ErrTruncated is returned if a file is shorter than it announces. It is
	// also an [ErrMalformed].
	ErrTruncated = fmt.Errorf("%w: truncated", ErrMalformed)
	// ErrMagic is returned if a file does not start like GGUF: most are files
	// of another kind. It is also an [ErrMalformed].
	ErrMagic = fmt.Errorf("%w: not GGUF", ErrMalformed)
	// ErrUnsupported is returned for a valid kind of file that this package
	// does not read. It is also an [errors.ErrUnsupported].
	ErrUnsupported = fmt.Errorf("unsupported file: %w", errors.ErrUnsupported)
	// ErrNoKey is returned if a key is not in the file.
	ErrNoKey = errors.New("gguf: no such key")
	// ErrKeyType is returned if a key has a value of another type, or out of
	// range.
	ErrKeyType = errors.New("gguf: key of another type")
	// ErrNoTensor is returned if a tensor is not in the file.
	ErrNoTensor = errors.New("gguf: no such tensor")
)
