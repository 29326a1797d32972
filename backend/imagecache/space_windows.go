package imagecache

import (
	"os"

	"golang.org/x/sys/windows"
)

// Space returns the number of bytes that this user may still write on the disk of a
// folder, and the total size of that disk.
func Space(dir string) (free, total int64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var f, t uint64
	if err := windows.GetDiskFreeSpaceEx(name, &f, &t, nil); err != nil {
		return 0, 0, os.NewSyscallError("GetDiskFreeSpaceEx", err)
	}
	return int64(f), int64(t), nil
}
