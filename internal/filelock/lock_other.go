//go:build !linux && !darwin && !freebsd && !windows

package filelock

import (
	"errors"
	"os"
)

// Try returns [errors.ErrUnsupported] on this system.
func Try(*os.File, bool) error { return errors.ErrUnsupported }
