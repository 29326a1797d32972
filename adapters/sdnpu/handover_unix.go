//go:build unix

package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// handOver becomes the original program, so that a kill meant for this process
// reaches it. It returns only on failure.
func handOver(original string, args []string) error {
	argv := append([]string{original}, args...)
	if err := unix.Exec(original, argv, os.Environ()); err != nil {
		return fmt.Errorf("start %s: %w", original, err)
	}
	return nil
}
