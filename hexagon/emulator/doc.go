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
// # What it is not
//
// It emulates results, not a chip: times, power, memory windows and the choice
// of the SoC change nothing it computes, and its numbers are those of no phone.
// Its context binaries are its own format and fit no device. Signals and
// asynchronous calls answer "not supported", as on the vendor's x86-64 library.
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
// cpu=c|avx2|avx512|neon (the code path, if the machine has it) and threads=N (1 to
// 64; default: the processors this process may use). They change speed only.
package emulator
