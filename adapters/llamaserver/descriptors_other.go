//go:build !unix

package llamaserver

import "math"

// descriptors returns the number of files and connections that the process may open.
// This system has no limit on open files.
func descriptors() int { return math.MaxInt32 }
