//go:build !unix

package loaderpath

// On this system Restart returns nil, because no variable names folders for the loader.
func Restart(func(string)) error { return nil }
