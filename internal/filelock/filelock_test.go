package filelock_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/internal/filelock"
)

// open opens the file at path and closes it after the test.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestLocksConflictBetweenOpenFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	if err := filelock.Try(first, false); err != nil {
		t.Skipf("no locks here: %v", err)
	}
	require.NoError(t, filelock.Try(second, false), "shared locks agree")
	require.NoError(t, second.Close())
	second = open(t, path)
	require.ErrorIs(t, filelock.Try(second, true), filelock.ErrHeld)
	require.NoError(t, first.Close())
	require.NoError(t, filelock.Try(second, true), "closing a file releases its lock")
}

func ExampleTry() {
	f, err := os.CreateTemp("", "lock")
	if err != nil {
		panic(err)
	}
	defer os.Remove(f.Name())
	defer f.Close() // closing the file releases the lock
	err = filelock.Try(f, true)
	fmt.Println(errors.Is(err, filelock.ErrHeld))
	// Output: false
}
