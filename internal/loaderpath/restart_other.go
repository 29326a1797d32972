//go:build !unix

package loaderpath

// Restart returns nil: no variable of this system names folders for the loader.
func Restart(func(string)) error { return nil }
