package imagecache

import "errors"

var (
	// ErrMiss is returned if the store has no valid image of the given key.
	ErrMiss = errors.New("image is not in the image cache")
	// ErrKey is returned for a key that is not a SHA-256 in lower-case
	// hexadecimal.
	ErrKey = errors.New("invalid key")
	// ErrStore is returned if an image could not be stored, for example because the
	// disk is full. The image itself may still be valid.
	ErrStore = errors.New("cannot store the image")
)

// errDamaged is the reason why Get removes a file.
var errDamaged = errors.New("damaged")
