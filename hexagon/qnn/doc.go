// Package qnn speaks the C interface of Qualcomm's QNN libraries (libQnnHtp.so
// and what imitates it) without cgo: it loads the library, checks its version,
// lays out the C structs and calls the functions. One Go method is one C call.
//
// It knows no operator, no model and no policy: package hexagon decides what a
// graph holds, when contexts live and what an error means.
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
//	err = binding.Execute(nil)        // as often as wanted
//
// # Invariants
//
//   - No pointer into Go memory is left with the library after a call. The
//     exceptions are the image of a context created as persistent, which
//     [Context] keeps alive, what a [Lender] lent, and a run in line.
//   - What the library does not check is checked here, because it would read or
//     write past the end: the bytes of static data and of every buffer of an
//     execute against the tensor's size. NUL bytes in names are refused.
//   - Strings and arrays that the library owns are copied at once, and no count
//     that it reports is believed beyond a fixed bound.
//   - A handle has one Go owner with Close, which may be called twice. Close in
//     the order graphs' contexts, device, backend, log, library. A graph ends
//     with its context; using either afterwards is [ErrClosed], never a call
//     with a handle number that the library may have given to somebody else.
//   - A missing function and code 1000 both match [errors.ErrUnsupported].
//
// # Threads
//
// Every method may be called from any goroutine; a call cannot be interrupted.
// Build one graph from one goroutine at a time. A [Binding] runs on one
// goroutine at a time, several bindings side by side; libraries before core API
// 2.40 get one run at a time, because two at once were seen to wait for each
// other for ever. Contexts may be made and freed beside a run.
//
// What the library calls back — the end of [Binding.ExecuteAsync] and
// [Backend.LoadContexts], the requests of [Backend.LoadContextFrom] — comes from
// any thread and finds its Go side by a number. The vendor's x86-64 library
// refuses these calls (1000); the emulator and phones have them.
//
// # What is not bound
//
// Updating tensors of a finished graph (adapters), subgraphs, context tensors,
// operator packages, DLC files and incremental images: nothing here needs them.
// Layouts of what is bound stand in public headers (core API 2.32 and later);
// entries 71 to 74 of the table and the encoding "microscaling" stand in none.
//
// # Standard output
//
// The vendor's library prints to stdout when it is loaded, and before core API
// 2.37 in every [Graph.Finalize]. On Linux file descriptor 1 therefore points
// to stderr during [Open] and those, and C's buffers are flushed before it is
// put back. What a goroutine writes to stdout in that time goes to stderr.
//
// # Logging
//
// The library formats nothing: it hands out a C format and a va_list, which is
// rendered by libc inside the callback (Linux and macOS; elsewhere the bare
// format is passed on). C gives a callback no context pointer, so each open
// [Log] has a callback of its own; closed ones are reused, because callbacks
// can never be freed.
//
// # Cost
//
// A call costs about half a microsecond (BenchmarkCall) and [Binding.Execute]
// allocates nothing of its own. Loading the vendor's library takes 0.3 s and 100 MB.
//
// # Platforms
//
// Linux, macOS and Windows on amd64 and arm64, with CGO_ENABLED=0 as with 1;
// Android on arm64 and amd64 with cgo only, because purego needs it there.
// Elsewhere [Open] returns [errors.ErrUnsupported]. Facts about the interface
// come from calling the library (core API 2.36, 2.37 and 2.40) and, where that
// could not show them, from compiling the public headers of 2.32. "Library 2.40"
// in a comment is the one with that core API; its build is v2.51.0.260929181845,
// of the wheel onnxruntime-qnn 2.7.0.
package qnn
