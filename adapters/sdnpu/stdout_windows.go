package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// takeStdout returns what was stdout; from now on stdout is another name of
// stderr, for libraries that print: their C runtime looks when it is loaded.
func takeStdout() (*os.File, error) {
	err := windows.SetStdHandle(windows.STD_OUTPUT_HANDLE, windows.Handle(os.Stderr.Fd()))
	return os.Stdout, os.NewSyscallError("SetStdHandle", err)
}
