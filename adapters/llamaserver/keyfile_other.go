//go:build !unix

package llamaserver

// warnReadable adds no warning: this system keeps the rights of other users outside a
// file's mode.
func (a *Access) warnReadable(secrets, path string) {}
