//go:build !linux && !darwin && !freebsd && !windows

package filelock

import (
	"errors"
	"os"
)

// On this system, Try returns [errors.ErrUnsupported].
func Try(*os.File, bool) error { return errors.ErrUnsupported }
