//go:build !linux && !darwin && !freebsd && !windows

package imagecache

import "errors"

// This system has no supported way to measure free space.
func Space(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }
