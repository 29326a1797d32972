// Package hexagon makes the Hexagon NPU a [backend.Device]. Package hexagon calls the NPU
// through a QNN library. The QNN library is the vendor's libQnnHtp.so or a library with the
// same entry points, such as this project's emulator.
//
// On the NPU, a node becomes one QNN node with the operator of the same name, because
// package backend uses QNN's operators. Only a FullyConnected whose weights have block
// scales becomes other operators: a Conv2d with Reshapes. Package hexagon lets the library
// validate each node before it adds the node, because the vendor's addNode and finalize
// accept nodes that they then compute wrongly. If the library refuses a node, Compile
// returns an error that matches [errors.ErrUnsupported]. For an RmsNorm whose beta is not
// zero, Compile returns [errors.ErrUnsupported], because the vendor's library would accept
// it and compute it wrongly. Package hexagon never repeats a failed execute and never
// computes a refused node on the CPU instead.
//
// # Images
//
// An image of package hexagon is a file format around the library's context binary. The
// manifest in an image holds names, shapes and the tensor IDs that an execute needs.
// Checksums cover the manifest and the context binary, because the vendor's library accepts
// damaged binaries. The checksums of an image detect damage but not manipulation, so keep
// images in a folder where only their owner can write. If the library can use an image in
// place, a loaded program uses the mapped image without a copy.
//
// Graphs that are compiled together store equal constants once, if the library can load
// such images. At its first call, [Device.Capabilities] compiles and loads a test image to
// find out whether the library can load images with shared constants. The emulator can load
// images with shared constants; the vendor's x86-64 library compiles them but refuses to
// load them.
//
// # Invariants
//
// One Device uses one library, one backend and one chip. Two Devices with the same library
// path use the same loaded library. A goroutine may compile, load and close programs while
// other programs execute. In the vendor's library, a compilation waits for executes, and an
// execute waits for compilations. [Device.Load] rejects an image whose fingerprint names
// another chip, library or lowering version, because the vendor's x86-64 library would load
// and run such an image.
//
// # Where things are
//
// A graph's handle belongs to its QNN context. [Device.Load] returns a [backend.Program];
// closing the program frees the context with all of its graphs (program.go).
// [Device.Compile] frees its own context before it returns (compile.go). The engine's
// package residency decides when the programs of block graphs are closed. The engine closes
// the head's program (head.go) and whole graph sets (replace.go), and package embed closes
// the programs of embedding models.
//
// The documentation of package backend lists every place that a new operator needs. In
// package hexagon, a new operator needs changes in lower.go only: droppedParams,
// impliedParams, lowerNode, and a check like checkNorm if the library accepts only some of
// the operator's forms. The file power.go has power votes, memory.go the memory shared with
// the DSP, and fault.go the causes and remedies of the library's error codes.
//
// # Locks
//
// Package hexagon has three locks: Device.buildMu, Device.powerMu and program.mu. No two
// locks of package hexagon are held together. A goroutine that holds a lock of package
// hexagon may call package qnn, so locks of package hexagon are taken before locks of
// package qnn. The comment of a field names the lock that guards the field. An execute
// holds the mu of its program, so Bind, Unbind and Close of the same program
// wait for it.
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
// In an execute, package hexagon only compares bindings before it calls the library. If the
// bindings have not changed since the previous execute of the graph, an execute allocates
// no Go memory. [Device.Compile] takes minutes for a block on the vendor's compiler;
// [Device.Load] reads the whole image once to verify its checksum.
package hexagon
