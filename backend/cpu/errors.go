package cpu

import "errors"

// errSize is returned for a buffer without bytes.
var errSize = errors.New("size is not positive")
