// Package mapped maps files into memory for reading.
//
// The system loads a page when it is first touched and drops pages when memory
// is short, so a model larger than memory can still be opened. The package maps
// whole regular files and nothing else.
//
// # Invariants
//
//   - A file must keep its length while it is mapped. A read past the end of a
//     file that was shortened kills the process, except in Go code inside
//     [Guard]. To replace a file, write a new one and rename it.
//   - The bytes are valid until [File.Close] and must not be written.
//
// Opening a file of any size costs two system calls.
package mapped
