//go:build unix

package mapped_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/internal/mapped"
)

func TestGuardReportsShortenedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	f, err := mapped.Open(path)
	require.NoError(t, err)
	defer f.Close()
	sum := func() error {
		for _, b := range f.Bytes() {
			if b != 0 {
				return os.ErrInvalid
			}
		}
		return nil
	}
	require.NoError(t, mapped.Guard(sum))
	require.NoError(t, os.Truncate(path, 5000))
	require.ErrorIs(t, mapped.Guard(sum), mapped.ErrGone)
	require.ErrorIs(t, mapped.Guard(func() error { return copied(f.Bytes()[1<<19:]) }), mapped.ErrGone, "memmove")
}

func copied(from []byte) error {
	copy(make([]byte, len(from)), from)
	return nil
}

func TestGuardPassesOtherErrorsAndPanics(t *testing.T) {
	require.ErrorIs(t, mapped.Guard(func() error { return os.ErrClosed }), os.ErrClosed)
	require.Panics(t, func() { _ = mapped.Guard(func() error { panic("ours") }) })
	var none *int
	require.Panics(t, func() { _ = mapped.Guard(func() error { *none = 1; return nil }) })
}
