//go:build !(linux && (amd64 || arm64) && (!android || cgo))

package qnn

// stdoutToStderr runs f. Only the vendor's Linux library is known to print.
func stdoutToStderr(f func()) { f() }
