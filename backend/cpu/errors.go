package cpu

import "errors"

// errSize is returned for a buffer size that is zero or negative.
var errSize = errors.New("buffer size is not positive")
