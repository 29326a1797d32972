// Package emulator builds a stand-in for the vendor's libQnnHtp.so from C
// sources it carries, so that everything above the QNN line runs, and is
// tested, on a machine without an NPU.
//
// The library has the vendor's entry point, function table (core API 2.40) and
// struct layouts; the binding that ships is the binding that is tested. It says
// what it is: provider "HTP_EMULATOR_SDNPU", build id "sdnpu-emulator ...". The
// same file answers for the system library, which describes binaries without a
// device ("SYSTEM_EMULATOR_SDNPU").
//
// With a compiler for Windows it becomes a QnnHtp.dll, so that our program can be
// tried there: on one thread, without registered memory, and not paced.
//
// # What it is not
//
// It emulates results, not a chip: times, power, memory windows and the choice
// of the SoC change nothing it computes, and without a profile (below) its times
// are those of no phone.
// Its context binaries are its own format and fit no device. Signals,
// sections of an image, and encodings with a mapping answer "not supported".
// Runs and loads that notify, images lent by callbacks and a context's
// properties, which the vendor's x86-64 library refuses, work.
//
// # Stricter than the vendor's library
//
// What the vendor's x86-64 library accepts in silence is refused with the
// fitting code and an error line that names graph, node, tensor and reason:
// static data or buffers of a wrong size, a wrong data type or shape at
// execute, quantizations that do not fit their tensor, overlapping output
// buffers, duplicate names, nodes that the operator
// refuses (at addNode, not at finalize), tensors nobody writes or reads, damaged
// or foreign context binaries, a binary of another SoC, options that would be
// ignored.
//
// # Rule of sums
//
// Every sum runs in one fixed order, with fused multiply-add in float32 and one
// rounding to the output type at its end, and is the same on every code path,
// thread count and graph width; a slot whose probability is exactly zero is
// skipped. So padding, width and machine change no bit of a result.
//
// # Ownership and threads
//
// Calls may come from any thread. Executes run one at a time in the process and
// share one arena; contexts are built, loaded and freed beside them. The client's
// buffers are read and written in place, and so is memory that was registered
// by a file descriptor, which a run keeps from going away. With a persistent binary the packed
// weights are used where the client mapped them, so the mapping must outlive the
// context.
//
// # Environment
//
// The C library reads SDNPU_EMULATOR when it is first used: comma-separated keys
// cpu=c|avx2|avx512|vnni|neon (the code path, if the machine has it) and threads=N (1 to
// 64; default: the processors this process may use). They change speed only. A
// key that it does not know is refused when a backend is created, and so
// is a value that no machine takes.
//
// # A phone's time
//
//	SDNPU_EMULATOR=profile=sd8gen2,as=qwen2.5-1.5b,pace=wall,scale=1
//
// makes loads and runs cost what they cost on a phone by a profile of package
// graphswap, whose formulas these are: no phone was asked. With pace=wall (the
// default) a call sleeps until its cost times scale is over; with pace=virtual
// nothing sleeps. as lets a small model stand for a big one of the profile;
// without it a model is what its own shapes and bytes say, by the profile's
// generic costs, and all of a row's cost falls on the blocks.
//
//   - A graph is a block's when it has inputs past_k<layer>; _layers<K>of<T> in
//     its name is the share of the model that it is charged for (without that,
//     its past_k inputs among the layers of the model it stands for). Its rows
//     are those of the input x, padding included. The tokens before a run are the slots
//     that its input mask shows, the mean over rows that see any; half of the
//     rows is added.
//   - A graph whose name begins with "head" is charged for all its rows and for
//     no submission: the profiles count those per block. Any other graph costs
//     one submission, and its load the bytes that it has.
//   - Graphs of one context share the weights of their block or head: its load
//     is charged for them once.
//   - One run and one load at a time; with pace=wall a run that starts while a
//     load goes on is slower by the profile's factor, or that of slowdown=1.2.
//     With pace=virtual calls do not know of each other: whoever keeps the clock
//     multiplies.
//   - A session holds what loaded contexts take on the phone and the files of
//     registered memory, each once, up to the profile's window: 1002 for a
//     context beyond it, 8003 for memory. Contexts that are being compiled take
//     nothing.
//
// Profile events tell the cost: those of the call as a whole in µs (with wall:
// how long it was), and those of the pace: 9100 (whose time it is, as text with
// the profile's kind), in nanoseconds 9101 (charged, without scale) and 9102 (by
// how much the call was longer than charge times scale, because the emulation
// itself took longer or the machine was busy), and with wall 9103, the scale in
// millionths.
package emulator
