// Package qnnruntime installs the vendor's QNN runtime: the libraries, stubs and
// DSP images (skels) in the public Python wheel onnxruntime-qnn.
//
// We may not distribute the runtime, so the user downloads it from a package
// index, which also gives its checksum, or provides the wheel as a file. The
// package unpacks the wheel and runs no Python. The caller must show the
// vendor's licence and ask for consent.
//
// # Untrusted input
//
// Index pages, wheels and their records are untrusted. The package limits sizes
// before it allocates or writes, compares each file with the checksum that the
// wheel records, unpacks only files with known names, and ignores the paths that
// the wheel gives them.
//
// # Layout
//
// A folder DIR gets the wheel's own two folders, because its libraries find each
// other by relative paths, and a file that lists the contents:
//
//	DIR/onnxruntime_qnn/libQnnHtp.so …
//	DIR/onnxruntime_qnn.libs/libc++ …
//	DIR/runtime.json
//
// Installing again replaces the files by renaming. A folder with runtime.json is
// complete.
package qnnruntime
