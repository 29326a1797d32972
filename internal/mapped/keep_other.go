//go:build !linux && !windows

package mapped

import "os"

// On this system, protect returns errNoLease, because nothing holds writers.
func protect(*os.File, Keeping) (Protection, holder, error) { return "", nil, errNoLease }
