// Package hexagon makes the Hexagon NPU a [backend.Device]. It reaches the NPU
// through QNN: the vendor's libQnnHtp.so, or a library with the same entry
// points, such as this project's emulator.
//
// Graphs are lowered one to one, because the contract's operators are QNN's.
// The library validates each node before it is added: the vendor's addNode and
// finalize accept nodes that they then compute wrongly. A node that the library
// refuses is [errors.ErrUnsupported], and so is an RmsNorm with a beta other
// than zero, which the vendor's library accepts and ignores. Nothing here retries
// or falls back to the CPU.
//
// # Images
//
// An image is our own container around the library's context binary. Its
// manifest holds names, shapes and the tensor IDs that an execute needs.
// Checksums cover both parts, because the vendor's library accepts flipped
// bytes. They detect damage, not malice: keep images where only their owner
// writes. A loaded program keeps its image in place if the library can use it
// mapped.
//
// Graphs that are compiled together store equal constants once if the library
// can load such images. [Device.Capabilities] finds out by trying: the emulator
// can, and the vendor's x86-64 library compiles them and then refuses to load
// them.
//
// # Invariants
//
//   - one Device is one library, one backend and one chip; the library is
//     loaded once per process and path;
//   - compiling, loading and closing are safe during executes of other programs;
//     the vendor's compiler and its executes wait for each other;
//   - an image of another chip, library or version of this package is rejected
//     by its fingerprint: the vendor's x86-64 library would load and run it.
//
// # Where things are
//
//   - A graph's handle belongs to its context. [backend.Program.Close] of the
//     program that [Device.Load] returned frees the context and with it all of
//     its graphs (program.go); [Device.Compile] frees its own context before it
//     returns (compile.go). Package residency of the engine says who closes when.
//   - Package backend lists all places of a new operator. The one here is lower.go:
//     droppedParams, impliedParams, lowerNode.
//   - Power votes are in power.go, memory shared with the DSP in memory.go, causes
//     and remedies of the library's error codes in fault.go.
//
// # Locks
//
// Device.buildMu, Device.powerMu and program.mu. No two of them are held together.
// Each may be held during a call into package qnn, so they come before its locks.
// The comment of a field names the lock that guards it. An execute holds its
// program's mu, so Bind and Close of the same program wait for it.
//
// # What lossless means
//
// On the emulator a row has the same bits in a graph of any width, with any
// padding and any position of its past in the cache. On the vendor's x86-64
// library it has the same bits only among AR-1 and AR-8 graphs, or among AR-32
// and AR-128 graphs, and only if all that it attends to is in the same columns.
// Between those groups, five layers of SmolLM2 give equal tokens but 6 to 63 %
// equal elements when the width, the split into passes or the position of the past
// changes (testdata/vendor_widths.md). There, lossless can only mean equal
// tokens, with the flips counted.
//
// # Cost
//
// An execute adds a few comparisons to the library's call and allocates nothing
// if its bindings did not change. [Device.Compile] takes minutes for a block on
// the vendor's compiler; [Device.Load] reads the whole image once for its
// checksum.
package hexagon
