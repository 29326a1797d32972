//go:build !linux && !windows

package mapped

import "os"

// On this system, protect returns errNoLease, because the system cannot make other
// processes wait before they write.
func protect(*os.File, Keeping) (Protection, holder, error) { return "", nil, errNoLease }
