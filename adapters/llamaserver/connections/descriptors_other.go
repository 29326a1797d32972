//go:build !unix

package connections

import "math"

// descriptors returns the number of files and connections that the process may open. On
// this system, the number of open files has no limit.
func descriptors() int { return math.MaxInt32 }
