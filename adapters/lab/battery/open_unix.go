//go:build !windows

package battery

import "os"

// Open returns a reader of this machine's batteries, or [ErrNone].
func Open() (Reader, error) { return fromFolder(os.DirFS("/sys/class/power_supply")) }
