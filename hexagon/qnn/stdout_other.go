//go:build !(linux && (amd64 || arm64) && (!android || cgo))

package qnn

// stdoutToStderr runs f. On systems other than Linux, stdoutToStderr does not redirect
// stdout, because only the vendor's Linux library is known to print.
func stdoutToStderr(f func()) { f() }
