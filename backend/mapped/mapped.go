// Package mapped gives read-only access to the bytes of a file without reading
// it: the system brings pages in when they are touched and drops them when
// memory is short, so a model larger than memory can still be opened.
//
// It maps whole files and nothing else. The file must keep its length while it
// is mapped: touching a page behind a shortened file's end kills the process,
// except within [Guard], and always in C. Whoever replaces a model writes a new
// file and renames it.
//
// Opening costs two system calls whatever the size.
package mapped

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
)

// File is a file in memory. Its methods may be called from any goroutine, but
// Close only once no one reads the bytes any more.
type File struct {
	mu    sync.Mutex
	bytes []byte
}

// Open maps the regular file at path. An empty file has no bytes and is no
// error. Where the system has no mapping that this package knows, the error is
// [errors.ErrUnsupported].
func Open(path string) (*File, error) {
	// Looked at before it is opened: opening a pipe waits for its writer.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular(path, info)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("mapped: %w", err)
	}
	defer f.Close()
	return Map(f)
}

// Map maps an open file, under the rules of [Open]. The caller keeps the
// descriptor, which the mapping does not need.
func Map(f *os.File) (*File, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("mapped: %w", err)
	case !info.Mode().IsRegular():
		return nil, notRegular(f.Name(), info)
	case info.Size() == 0:
		return &File{}, nil
	case info.Size() > math.MaxInt:
		return nil, fmt.Errorf("mapped: %s: %d bytes exceed the address space", f.Name(), info.Size())
	}
	b, err := mapFile(f, int(info.Size()))
	if err != nil {
		return nil, fmt.Errorf("mapped: map %d bytes of %s: %w", info.Size(), f.Name(), err)
	}
	return &File{bytes: b}, nil
}

// ErrNotRegular is returned for what is no file of bytes, such as a folder.
var ErrNotRegular = errors.New("no regular file")

func notRegular(path string, info os.FileInfo) error {
	return fmt.Errorf("mapped: %s is %w (%s)", path, ErrNotRegular, info.Mode().Type())
}

// Bytes returns the whole file. The slice is read-only (a write faults), is
// owned by the File and is invalid after Close; after Close it returns nil.
func (f *File) Bytes() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

// Close gives the mapping back. A second call does nothing.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.bytes
	f.bytes = nil
	if b == nil {
		return nil
	}
	if err := unmapFile(b); err != nil {
		return fmt.Errorf("mapped: unmap %d bytes: %w", len(b), err)
	}
	return nil
}
