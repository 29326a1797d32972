package qnnruntime

import "errors"

var (
	// ErrNoWheel is returned when the index has no wheel for the system.
	ErrNoWheel = errors.New("no wheel for this system")
	// ErrIndex is returned when the answer of an index cannot be used.
	ErrIndex = errors.New("the package index gave no usable answer")
	// ErrChecksum is returned when a file is not the one that its sum is for.
	ErrChecksum = errors.New("checksum differs")
	// ErrWheel is returned when a file is no sound wheel of the runtime.
	ErrWheel = errors.New("not a sound wheel of the runtime")
	// ErrNotInstalled is returned when a folder holds no runtime.
	ErrNotInstalled = errors.New("no runtime is installed there")
)
