// Package emulator builds a replacement for the vendor's libQnnHtp.so from the C
// sources that it embeds. Everything above QNN runs on it, and is tested on it,
// on a machine without an NPU.
//
// The library has the vendor's entry point, function table (core API 2.40) and
// struct layouts, so the tested binding is the shipped binding. It names itself:
// provider "HTP_EMULATOR_SDNPU", build ID "sdnpu-emulator ...". The same file
// has the entry point of the system library, which describes context binaries
// without a device ("SYSTEM_EMULATOR_SDNPU").
//
// A compiler for Windows builds a QnnHtp.dll, so that our program can be tried
// there: with one thread, without registered memory and without simulated times.
//
// Its folders are csrc/api (the QNN functions), csrc/ops (operators), csrc/kernels
// (vector code) and csrc/pace (a phone's time and memory). A new operator goes
// into csrc/ops.
//
// # What it is not
//
// It emulates results, not a chip. Times, power, memory limits and the SoC do not change a result,
// and without a profile (below) its times describe no phone. Its context binaries have a format of
// their own and fit no device. Encodings with a mapping and functions that package qnn does not
// call answer "not supported".
//
// # Stricter than the vendor's library
//
// The vendor's x86-64 library accepts the following silently. The emulator rejects
// it with a fitting code and an error line that names graph, node, tensor and
// reason: static data or buffers of a wrong size, a wrong data type or shape at
// execute, quantizations that do not fit their tensor, overlapping output buffers,
// duplicate names, nodes that the operator refuses (at addNode, not at finalize),
// tensors that no node writes or reads, damaged or foreign context binaries, a
// binary of another SoC, options that would be ignored.
//
// # Rule of sums
//
// Every sum has one fixed order, with fused multiply-add in float32 and one rounding
// to the output type at the end. It is the same on every code path, thread count and
// graph width. A slot with probability zero is skipped. So padding, width and
// machine change no bit of a result.
//
// # Ownership and threads
//
// Calls may come from any thread. Executes run one at a time in the process and
// share one arena. Contexts are built, loaded and freed in parallel with them. The
// client's buffers are read and written in place, and so is registered memory, which
// an execute keeps mapped. With a persistent binary, the packed weights are used in
// the client's mapping, which must outlive the context.
//
// # Environment
//
// The C library reads SDNPU_EMULATOR at its first use: comma-separated keys
// cpu=c|avx2|avx512|vnni|neon (the code path, if the machine has it) and threads=N
// (1 to 64; default: the processors that this process may use). They change speed
// only. Unknown keys and impossible values are rejected when a backend is created.
//
// # A phone's time
//
//	SDNPU_EMULATOR=profile=sd8gen2,as=qwen2.5-1.5b,pace=wall,scale=1
//
// makes loads and executes cost what they cost on a phone, by the formulas and
// profiles of package graphswap. These times are simulated, not measured. With
// pace=wall (the default) a call sleeps until its cost times scale has passed. With
// pace=virtual nothing sleeps. With as, a small model costs what a large model of
// the profile costs. Without it, a model's cost follows from its own shapes and
// bytes and the profile's generic costs, and all of a row's cost is charged to the
// blocks.
//
//   - A graph with inputs past_k<layer> is a block graph. _layers<K>of<T> in its
//     name gives its share of the model; without that, the share is its number of
//     past_k inputs among the layers of the model that it replaces. Its
//     rows are the rows of the input x, including padding rows. The tokens before an execute are
//     the slots that its input mask shows: the mean over rows that see any slot, plus
//     half of the rows.
//   - A graph whose name begins with "head" is charged for all of its rows and for no
//     submission, because the profiles count submissions per block. Any other graph
//     costs one submission, and its load costs its bytes.
//   - Graphs of one context share the weights of their block or head: its load is
//     charged for them once.
//   - One execute and one load run at a time. With pace=wall an execute that starts
//     during a load is slower by the profile's factor, or by slowdown=1.2. With
//     pace=virtual calls do not influence each other: the caller's clock applies the
//     factor.
//   - A session holds the memory that loaded contexts take on the phone and the files
//     of registered memory, each counted once, up to the profile's window. A context
//     beyond it fails with 1002, memory with 8003. Contexts that are being compiled do not count.
//
// Profile events report the cost: the event of the whole call in µs (with pace=wall its real
// duration), and events of the simulation: 9100 (the simulated device, with the profile's kind as
// text), in nanoseconds 9101 (simulated time, without scale) and 9102 (the time by which the call
// exceeded simulated time times scale), and with pace=wall 9103, the scale in millionths.
//
// # Cost
//
// A first [Build] takes some seconds; later builds find the library by its hash.
package emulator
