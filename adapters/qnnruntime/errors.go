package qnnruntime

import "errors"

var (
	// ErrNoWheel is returned if the index has no wheel for the system.
	ErrNoWheel = errors.New("no wheel for this system")
	// ErrIndex is returned if the answer of an index is invalid.
	ErrIndex = errors.New("the package index gave no usable answer")
	// ErrChecksum is returned if a file does not have the expected checksum.
	ErrChecksum = errors.New("checksum differs")
	// ErrWheel is returned if a file is not a valid wheel of the runtime.
	ErrWheel = errors.New("not a valid wheel of the runtime")
	// ErrNotInstalled is returned if a folder holds no runtime.
	ErrNotInstalled = errors.New("no runtime is installed")
)
