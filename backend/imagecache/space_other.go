//go:build !linux && !darwin && !freebsd && !windows

package imagecache

import "errors"

// On this system package imagecache cannot measure free space.
func Space(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }
