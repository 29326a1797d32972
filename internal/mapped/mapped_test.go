package mapped_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/internal/mapped"
)

func TestBytesEqualFile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 4095, 4096, 4097, 1 << 20} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(rng.Uint32())
		}
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, want, 0o600))

		f, err := mapped.Open(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, f.Bytes()), "%d bytes", size)
		require.NoError(t, f.Close())
		require.Nil(t, f.Bytes(), "bytes must not be reachable once unmapped")
		require.NoError(t, f.Close(), "a second Close does nothing")
	}
}

func TestMappingOutlivesFileName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("still here"), 0o600))
	f, err := mapped.Open(path)
	require.NoError(t, err)
	defer f.Close()
	if err := os.Remove(path); err != nil {
		t.Skipf("this system keeps the name of a mapped file: %v", err)
	}
	require.Equal(t, "still here", string(f.Bytes()))
}

func TestOpenRejectsMissingFileAndFolder(t *testing.T) {
	dir := t.TempDir()
	_, err := mapped.Open(filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = mapped.Open(dir)
	require.ErrorContains(t, err, "not a regular file")
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "mapped")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "greeting")
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		panic(err)
	}

	f, err := mapped.Open(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Printf("%s\n", f.Bytes())
	// Output: hello
}
