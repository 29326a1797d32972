//go:build !unix

package access

// warnReadable adds no warning: this system keeps the rights of other users outside a
// file's mode.
func (p *Policy) warnReadable(secrets, path string) {}
