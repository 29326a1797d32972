//go:build !linux && !darwin && !freebsd && !windows

package imagecache

import "errors"

// Space is not known here.
func Space(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }
