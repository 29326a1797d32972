package mapped

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// Keeping tunes [Keep].
type Keeping struct {
	// Unguarded states that bytes are read outside [Guard], for example by a C
	// library. A file that is read without Guard is copied if nothing else protects
	// it, and Lost is called if its bytes cannot be kept.
	Unguarded bool
	// Lost, when set, is called from another goroutine if the file changes and the
	// bytes of an unguarded file could not be kept. Code outside Guard may then read
	// wrong bytes, or end the process, so Lost should end it with the reason.
	Lost func(reason error)
}

// Protection is the way in which the bytes of a file are kept as they are.
type Protection string

// The ways of [Keep].
const (
	// Leased: the system makes whoever writes to the file wait until it is copied.
	Leased Protection = "lease"
	// Shared: the system refuses to open the file for writing.
	Shared Protection = "sharing mode"
	// Copied: the bytes are a copy in memory.
	Copied Protection = "copy"
	// ReadOnly: the file system is mounted for reading only.
	ReadOnly Protection = "read-only file system"
	// Unprotected: a process that writes to the file changes the bytes.
	Unprotected Protection = "none"
)

// copyBudget limits the memory that this process spends on copies of files that
// nothing else protects. Files beyond it are unprotected.
const copyBudget = 1 << 30

// copied is the size of all such copies.
var copied atomic.Int64

// errNoLease is returned if the system does not keep others from writing to a file.
var errNoLease = errors.New("the system does not protect the file from being written")

// errChanged is returned if a file changed before it was protected.
var errChanged = errors.New("the file was written while it was opened")

// holder protects a file until Close.
type holder interface {
	// attach tells the holder where the file is mapped. attach returns false if
	// the file's protection has ended already.
	attach(b []byte) bool
	Close() error
}

// Keep maps an open file as [Map] does, and keeps its bytes as they are until Close,
// even if the file is written or shortened: see the package documentation. The
// caller keeps f and may close it at once.
func Keep(f *os.File, k Keeping) (*File, error) {
	how, held, err := protect(f, k)
	switch {
	case errors.Is(err, errNoLease) && k.Unguarded:
		return keepCopy(f)
	case errors.Is(err, errNoLease):
		return Map(f)
	case err != nil:
		return nil, fmt.Errorf("mapped: %s: %w", f.Name(), err)
	}
	m, err := Map(f)
	if err == nil && held != nil && !held.attach(m.bytes) {
		err = fmt.Errorf("mapped: %s: %w", f.Name(), errChanged)
	}
	if err != nil {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
		if held != nil {
			err = errors.Join(err, held.Close())
		}
		return nil, err
	}
	m.protection, m.held = how, held
	return m, nil
}

// keepCopy reads the file into memory, or maps it unprotected if copies take too
// much memory already.
func keepCopy(f *os.File) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("mapped: %w", err)
	}
	size := info.Size()
	if !info.Mode().IsRegular() || size == 0 {
		return Map(f)
	}
	if copied.Add(size) > copyBudget {
		copied.Add(-size)
		return Map(f)
	}
	b, err := copyFile(f, int(size))
	if err != nil {
		copied.Add(-size)
		if errors.Is(err, errors.ErrUnsupported) {
			return Map(f)
		}
		return nil, fmt.Errorf("mapped: copy %s: %w", f.Name(), err)
	}
	return &File{bytes: b, protection: Copied}, nil
}
