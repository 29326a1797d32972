// Package qnnruntime installs the vendor's QNN runtime: the libraries, stubs and
// DSP images (skels) in the public Python wheel onnxruntime-qnn.
//
// The vendor's licence does not let this project distribute the runtime. With package qnnruntime,
// the user downloads the wheel from a package index, which also gives the checksum, or provides the
// wheel as a file. Package qnnruntime unpacks the wheel and runs no Python. The caller of package
// qnnruntime must show the vendor's licence and ask the user for consent.
//
// # Untrusted input
//
// Index pages, wheels and their records are untrusted input. Package qnnruntime checks sizes
// before it allocates or writes, and compares each file with the checksum that the wheel
// records. Package qnnruntime unpacks only files with known names, and ignores the paths that
// the wheel gives to these files.
//
// # Layout
//
// An installed runtime keeps the wheel's own two folders, because its libraries find each
// other by relative paths. The file runtime.json lists the contents of both folders of an
// installed runtime.
//
//	DIR/onnxruntime_qnn/libQnnHtp.so …
//	DIR/onnxruntime_qnn.libs/libc++ …
//	DIR/runtime.json
//
// Installing a runtime a second time replaces its files by renaming. A folder that has
// a runtime.json holds a complete runtime.
package qnnruntime
