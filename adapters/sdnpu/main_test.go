package main

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain is also the child that compiles: the program starts itself, and here
// it is the test.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && (os.Args[1] == compileCommand || os.Args[1] == executeCommand) {
		if err := dispatch(context.Background(), os.Args); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
