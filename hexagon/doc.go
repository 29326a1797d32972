// Package hexagon is the Hexagon NPU as a [backend.Device], reached through
// QNN: the vendor's libQnnHtp.so, or any library with its entry points, such as
// the emulator of this project.
//
// Graphs are lowered one to one, because the contract's operators are QNN's.
// Each node is validated by the library before it is added: the vendor's own
// addNode and finalize accept nodes that they then compute wrongly.
//
// An image is our own container around the library's context binary: a
// manifest with names, shapes and the tensor numbers that a run needs, and
// checksums over both, since the vendor's library accepts flipped bytes. They
// guard against damage, not against malice: keep images where only their owner
// writes. A loaded program keeps its image in place where the library can use
// it mapped.
//
// Graphs compiled together hold equal constants once where the library can load
// such images, which [Device.Capabilities] finds out by trying: the emulator
// can, the vendor's x86-64 library compiles them and then refuses to load them.
//
// What the library refuses at validation is [errors.ErrUnsupported], and so is
// an RmsNorm with a beta other than zero, which the vendor's library accepts
// and leaves out.
//
// # What lossless means
//
// On the emulator a row has the same bits in a graph of any width, with any
// padding and wherever its past lies in the cache. On the vendor's x86-64
// library it has them only among narrow graphs (1 and 8 rows) or among wide ones
// (32 and 128) as long as everything it sees stands in the same columns: five
// layers of SmolLM2 give equal tokens, but 6 to 63 % equal elements, when the
// kind of graph, the split into passes or the place of the past changes
// (testdata/vendor_widths.md), so there lossless can only mean equal tokens,
// with the flips counted.
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
