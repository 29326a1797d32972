// Package hexagon is the Hexagon NPU as a [backend.Device], reached through
// QNN: the vendor's libQnnHtp.so, or any library with its entry points, such as
// the emulator of this project.
//
// Graphs are lowered one to one, because the contract's operators are QNN's.
// Each node is validated by the library before it is added: the vendor's own
// addNode and finalize accept nodes that they then compute wrongly (htp.md §2).
//
// An image is our own container around the library's context binary: a
// manifest with names, shapes and the tensor numbers that a run needs, and
// checksums over both, since the vendor's library accepts flipped bytes. A
// loaded program keeps its image in place where the library can use it mapped.
//
// # Invariants
//
//   - one Device is one library, one backend and one chip; the library is
//     loaded once per process and path;
//   - compiling, loading and closing are safe beside runs of other programs;
//     the vendor's compiler waits for a run and a run for it;
//   - an image of another chip, library or version of this package is refused
//     by its fingerprint: the vendor's x86-64 library would load and run it.
//
// Nothing here retries or falls back to the CPU.
package hexagon
