//go:build !linux

package qnn

import (
	"errors"
	"fmt"
)

func openAnonymousFiles() (*FastRPC, error) {
	return nil, fmt.Errorf("qnn: shared memory without FastRPC: %w", errors.ErrUnsupported)
}
