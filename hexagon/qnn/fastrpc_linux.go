package qnn

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func openAnonymousFiles() (*FastRPC, error) { return &FastRPC{allocate: allocateFile}, nil }

// allocateFile allocates shared memory as an anonymous file of Linux.
func allocateFile(size int) (_ *SharedMemory, err error) {
	fd, err := unix.MemfdCreate("sdnpu", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("qnn: memfd_create: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Close(fd))
		}
	}()
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, fmt.Errorf("qnn: extend an anonymous file to %d bytes: %w", size, err)
	}
	bytes, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if errors.Is(err, unix.ENOMEM) {
		err = fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	if err != nil {
		return nil, fmt.Errorf("qnn: map an anonymous file of %d bytes: %w", size, err)
	}
	free := func() error { return errors.Join(unix.Munmap(bytes), unix.Close(fd)) }
	return &SharedMemory{bytes: bytes, fd: fd, free: free}, nil
}
