// Package qnnruntime brings the vendor's QNN runtime onto the user's machine:
// the libraries, stubs and DSP images (skels) that the public Python wheel
// onnxruntime-qnn holds, for the systems that it is made for.
//
// Nothing of it is ours to ship, so the user fetches it: from a package index,
// whose checksum decides whether the file is the one that it lists, or from a
// file that he has. The wheel is only unpacked: no Python runs. Its licence is
// the vendor's, and asking for consent is the caller's work.
//
// # What is not trusted
//
// An index page, a wheel and its record are all hostile until checked: sizes are
// bounded before anything is allocated or written, every file's sum must be the
// one that the wheel records, only names on a short list leave the wheel, and
// they go into one flat folder, whatever paths they claim.
//
// # Layout
//
// A folder DIR gets the wheel's own two folders, since its libraries find each
// other by relative paths, and a stamp that says what is there:
//
//	DIR/onnxruntime_qnn/libQnnHtp.so …
//	DIR/onnxruntime_qnn.libs/libc++ …
//	DIR/runtime.json
//
// A second install replaces the first by renaming; half an install is never
// seen.
package qnnruntime
