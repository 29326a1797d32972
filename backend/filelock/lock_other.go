//go:build !linux && !darwin && !freebsd && !windows

package filelock

import (
	"errors"
	"os"
)

func Try(*os.File, bool) error { return errors.ErrUnsupported }
