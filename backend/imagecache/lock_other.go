//go:build !linux && !darwin && !freebsd && !windows

package imagecache

import (
	"errors"
	"os"
)

func tryLock(*os.File, bool) error { return errors.ErrUnsupported }
