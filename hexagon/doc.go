// Package hexagon makes the Hexagon NPU a [backend.Device]. Package hexagon calls the
// NPU through QNN: through the vendor's libQnnHtp.so, or a library with the same entry
// points, such as this project's emulator.
//
// Each operator of package backend becomes one QNN operator, because package
// backend uses QNN's operators. Each node is validated by the library before it is
// added, because the vendor's addNode and finalize accept nodes that they then
// compute wrongly. For a node that the library refuses, the error is
// [errors.ErrUnsupported]. An RmsNorm whose beta is not zero also gives
// [errors.ErrUnsupported], because the vendor's library would accept it and
// compute it wrongly. Package hexagon never retries a call and never computes on
// the CPU instead.
//
// # Images
//
// An image of package hexagon is a file format around the library's context binary. The
// manifest in an image holds names, shapes and the tensor IDs that an execute needs.
// Checksums cover the manifest and the context binary, because the vendor's library
// accepts damaged binaries. The checksums of an image detect damage but not
// manipulation, so keep images in a folder where only their owner can write. If the
// library can use a mapped image, a loaded program uses it without a copy.
//
// Graphs that are compiled together store equal constants once, if the library can load such
// images. [Device.Capabilities] finds out with a test image whether the library can load images
// with shared constants. The emulator can load images with shared constants; the vendor's
// x86-64 library compiles them but refuses to load them.
//
// # Invariants
//
//   - one Device uses one library, one backend and one chip; a library is loaded
//     once per process and path;
//   - compiling, loading and closing are safe while other programs execute, but the
//     vendor's compiler and its executes wait for each other;
//   - an image of another chip, library or version of this package is rejected by
//     its fingerprint, because the vendor's x86-64 library would load and run it.
//
// # Where things are
//
//   - A graph's handle belongs to its context. [Device.Load] returns a
//     [backend.Program]; closing it frees the context with all of its graphs
//     (program.go). [Device.Compile] frees its own context before it returns
//     (compile.go). Of the block graphs, the engine's package residency decides when
//     their programs are closed; the engine closes the head's program (head.go) and whole
//     sets (replace.go), and package embed closes the programs of embedding models.
//   - The documentation of package backend lists every place that a new operator needs. In
//     package hexagon, a new operator needs changes in lower.go only: droppedParams,
//     impliedParams, lowerNode, and a check like checkNorm if the library accepts only
//     some of the operator's forms.
//   - power.go has power votes, memory.go the memory shared with the DSP, and
//     fault.go the causes and remedies of the library's error codes.
//
// # Locks
//
// Package hexagon has three locks: Device.buildMu, Device.powerMu and program.mu. No
// two locks of package hexagon are held together. Each lock of package hexagon may be
// held during a call into package qnn, so it is taken before the locks of that package.
// The comment of a field names the lock that guards the field. An execute holds the mu
// of its program, so Bind and Close of the same program wait for it.
//
// # What lossless means
//
// On the emulator, the result of a row has the same bits in a graph of any width, with any
// padding, and wherever its past tokens are in the KV cache. On the vendor's x86-64 library,
// AR-1 and AR-8 graphs give a row the same bits, and so do AR-32 and AR-128 graphs, but only if
// all tokens that the row attends to are in the same slots. With the vendor's x86-64 library,
// lossless can only mean equal tokens, and the tokens that differ (flips) are counted.
//
// # Cost
//
// For an execute, package hexagon adds a few comparisons to the library's call. If the
// bindings of an execute did not change, it allocates no memory. [Device.Compile] takes
// minutes for a block on the vendor's compiler; [Device.Load] reads the whole image
// once to verify its checksum.
package hexagon
