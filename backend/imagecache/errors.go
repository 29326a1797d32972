package imagecache

import "errors"

var (
	// ErrMiss is returned when the store has no valid image of a key.
	ErrMiss = errors.New("not in the image cache")
	// ErrKey is returned for a key that is no SHA-256 in lower-case
	// hexadecimal.
	ErrKey = errors.New("invalid key")
	// ErrStore is returned when an image could not be kept: the disk is full,
	// the folder is not writable. The image itself may be fine.
	ErrStore = errors.New("cannot keep the image")
)

// errDamaged is why Get removes a file.
var errDamaged = errors.New("damaged")
