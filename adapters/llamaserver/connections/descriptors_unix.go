//go:build unix

package connections

import (
	"math"

	"golang.org/x/sys/unix"
)

// descriptors returns the number of files and connections that the process may open.
func descriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || uint64(limit.Cur) > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
