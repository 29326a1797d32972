//go:build !linux && !windows

package mapped

import "os"

// protect returns errNoLease: the system has nothing that holds writers.
func protect(*os.File, Keeping) (Protection, holder, error) { return "", nil, errNoLease }
