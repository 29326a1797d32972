//go:build !linux

package qnn

import (
	"errors"
	"fmt"
)

func openFiles() (*Sharing, error) {
	return nil, fmt.Errorf("qnn: shared memory without FastRPC: %w", errors.ErrUnsupported)
}
