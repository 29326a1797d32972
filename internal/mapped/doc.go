// Package mapped maps files into memory for reading.
//
// The operating system loads a page when it is first read, and drops pages when
// memory is short. So a model that is larger than the memory can still be opened.
// The package maps only whole, regular files.
//
// # Invariants
//
//   - A file must keep its length while it is mapped. Reading past the end of a
//     file that was shortened kills the process, except in Go code that runs inside
//     [Guard]. To replace a mapped file, write a new file and rename it over the
//     old one.
//   - The mapped bytes are valid until [File.Close], and must not be written.
//
// Opening a file costs two system calls, whatever its size.
package mapped
