package atomicfile

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func ExampleWrite() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "report.txt")
	err = Write(context.Background(), path, 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, "complete")
		return err
	})
	content, _ := os.ReadFile(path)
	fmt.Println(string(content), err)
	// Output: complete <nil>
}

func TestFailedWriteLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	done, cancel := context.WithCancel(t.Context())
	out := filepath.Join(dir, "out.gguf")
	err := Write(done, out, 0o600, func(w io.Writer) error {
		_, err := w.Write(make([]byte, 10))
		require.NoError(t, err)
		cancel()
		_, err = w.Write(make([]byte, 10))
		return err
	})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, Write(t.Context(), dir, 0o600, func(io.Writer) error { return nil }), "not a regular file")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestSameFollowsLinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	link := path + ".link"
	require.NoError(t, os.Link(path, link))
	require.True(t, Same(path, link))
	require.False(t, Same(path, path+".missing"))
}
