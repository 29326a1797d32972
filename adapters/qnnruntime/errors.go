package qnnruntime

import "errors"

var (
	// ErrNoWheel is returned if the package index has no wheel for the system.
	ErrNoWheel = errors.New("no wheel for this system")
	// ErrIndex is returned if the answer of a package index is invalid.
	ErrIndex = errors.New("the package index gave an answer that cannot be used")
	// ErrChecksum is returned if a file does not have the checksum that the index or
	// the wheel gives.
	ErrChecksum = errors.New("checksum differs")
	// ErrWheel is returned if a file is not a valid wheel of the runtime.
	ErrWheel = errors.New("the file is not a valid wheel of the runtime")
	// ErrNotInstalled is returned if a folder does not contain a runtime.
	ErrNotInstalled = errors.New("the folder holds no runtime")
)
