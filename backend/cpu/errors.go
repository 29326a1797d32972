package cpu

import "errors"

// errSize is returned when a buffer of no bytes is asked for.
var errSize = errors.New("size is not positive")
