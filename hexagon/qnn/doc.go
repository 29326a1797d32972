// Package qnn calls the C interface of Qualcomm's QNN libraries (libQnnHtp.so
// and libraries with the same entry points) without cgo. It loads a library,
// checks its version, lays out the C structs and calls the functions. One Go
// method is one C call.
//
// It knows no operator, no model and no policy. Package hexagon decides what a
// graph contains, how long contexts live and what an error means.
//
//	library, err := qnn.Open(path, qnn.Options{})
//	log, err := library.NewLog(qnn.LogWarn, nil)
//	backend, err := library.NewBackend(log)
//	device, err := library.NewDevice(log, qnn.DeviceOptions{SoC: 57})
//	context, err := backend.NewContext(device, qnn.ContextOptions{})
//	graph, err := context.NewGraph("block0", qnn.GraphOptions{})
//	err = graph.CreateTensor(&x)      // each tensor once; fills in its ID
//	err = backend.Validate(op)        // the vendor's addNode checks almost nothing
//	err = graph.AddNode(op)           // in topological order
//	err = graph.Finalize(nil)
//	binding, err := graph.Bind(inputs, outputs)
//	err = binding.Execute(nil)        // any number of times
//
// # Invariants
//
//   - After a call the library holds no pointer into Go memory. The one
//     exception is the image of a persistent context, which [Context] keeps
//     alive.
//   - The library does not check the length of static data and of execute
//     buffers, so this package compares both with the size of their tensor. It
//     rejects names that contain a NUL byte.
//   - Strings and arrays that the library owns are copied at once. Counts that
//     it reports are rejected above a fixed bound.
//   - A missing function and code 1000 both match [errors.ErrUnsupported].
//
// # Who owns which handle
//
// Each handle has one Go owner with Close, which may be called twice. Close
// contexts first, then the device, the backend, the log and the library. A
// [Memory] must be closed before its context. A graph has no Close: it is freed
// with its context. A closed handle returns [ErrClosed] and is never passed to
// the library, because the library gives freed handle numbers to new objects.
//
// # Threads and locks
//
// Every method may be called from any goroutine. A call cannot be interrupted.
// Build a graph from one goroutine at a time. A [Binding] runs on one goroutine
// at a time, and several bindings may run in parallel. Libraries before core API
// 2.40 get one execute at a time, because two at once deadlocked there.
// Contexts may be created and freed during an execute.
//
// Lock order: stdoutLock, Library.executeMu and System.mu may be held during a
// call into a library, whose log callback takes errorLines.mu. No other two locks
// are held together. idleSlots has a lock of its own, for log callbacks.
//
// # What is not bound
//
// Nothing here needs these parts of the interface, so they have no binding:
// updates of tensors in a finalized graph, subgraphs, context tensors, operator
// packages, DLC files, incremental images, signals, properties, and loads and
// executes that report their end through a callback. The vendor's x86-64 library
// 2.40 refuses asynchronous executes, lists of images, images provided through
// callbacks, signals and context properties with code 1000. It writes sections
// of an image that hold only a header when no tensor can be updated. Of the
// encodings with a mapping (8 to 10) it computes one, in Conv2d: 8 with axis 3,
// 2 bits and the mapping that excludes zero. It accepts 9 and 10 and ignores
// their scales.
//
// Package hexagon does not set all options that are bound. The tests compare the
// emulator's answer to each option with the vendor's.
//
// The layouts of the bound parts are in public headers (core API 2.32 and
// later). Entries 71 to 74 of the function table and the encoding
// "microscaling" are in none.
//
// # Standard output
//
// The vendor's library prints to stdout when it is loaded and, before core API
// 2.37, in every [Graph.Finalize]. On Linux, file descriptor 1 therefore points
// to stderr during these calls, and C's buffers are flushed before it is
// restored. Other goroutines' writes to stdout in that time go to stderr.
//
// # Logging
//
// The library passes an unformatted C format and a va_list. Libc renders them inside the callback
// on Linux and macOS; elsewhere the bare format is passed on. A C callback gets no context pointer,
// so each open [Log] has a callback of its own. Callbacks can never be freed, so the callbacks of
// closed logs are reused.
//
// # Cost
//
// A call costs about half a microsecond (BenchmarkCall), and [Binding.Execute]
// allocates nothing itself. Loading the vendor's library takes 0.3 s and 100 MB.
//
// # Platforms
//
// Linux, macOS and Windows on amd64 and arm64, with CGO_ENABLED=0 and 1.
// Android on arm64 and amd64 with cgo only, because purego needs cgo there.
// Elsewhere [Open] returns [errors.ErrUnsupported].
//
// Facts about the interface come from calls of the library (core API 2.36, 2.37
// and 2.40) and, if calls could not show them, from the public headers of 2.32.
// "Library 2.40" in a comment has that core API; its build is
// v2.51.0.260929181845, from the wheel onnxruntime-qnn 2.7.0.
package qnn
