// Package qnnruntime installs the vendor's QNN runtime: the libraries, stubs and
// DSP images (skels) in the public Python wheel onnxruntime-qnn.
//
// The project may not distribute the runtime. The user therefore downloads the
// runtime from a package index, which also gives its checksum, or provides the
// wheel as a file. The package unpacks the wheel and runs no Python. The caller
// must show the vendor's licence and ask the user for consent.
//
// # Untrusted input
//
// Index pages, wheels and their records are untrusted input. The package checks
// sizes before it allocates or writes, compares each file with the checksum that
// the wheel records, unpacks only files with known names, and ignores the paths
// that the wheel gives them.
//
// # Layout
//
// An installation in a folder DIR has the wheel's own two folders, because its
// libraries find each other by relative paths, and a file that lists the contents:
//
//	DIR/onnxruntime_qnn/libQnnHtp.so …
//	DIR/onnxruntime_qnn.libs/libc++ …
//	DIR/runtime.json
//
// Installing a second time replaces files by renaming. A folder that has a
// runtime.json is complete.
package qnnruntime
