package hexagon

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

// smallMemory is the environment variable that marks the child process of
// TestLoadWithoutMemoryIsErrNoMemory and holds the path of the child's library.
const smallMemory = "HEXAGON_SMALL_MEMORY"

// TestLoadWithoutMemoryIsErrNoMemory loads an image in a child process that may use only a
// little more address space than it has mapped already.
func TestLoadWithoutMemoryIsErrNoMemory(t *testing.T) {
	path := os.Getenv(smallMemory)
	if path == "" {
		self, err := os.Executable()
		require.NoError(t, err)
		child := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), smallMemory+"="+librarytest.Emulator(t))
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "refused: ")
		return
	}
	d := openDevice(t, path)
	// 6000 by 6000 float16 weights take 72 MB
	const n = 6000
	// the image is not aligned, so the library must copy it
	image := append([]byte{0}, compile(t, d, square(t, "g", n))...)[1:]
	require.False(t, isAligned(image))
	p, err := d.Load(t.Context(), backend.Image{Bytes: image})
	require.NoError(t, err, "with memory")
	require.NoError(t, p.Close())
	limitMemory(t, n*n)
	_, err = d.Load(t.Context(), backend.Image{Bytes: image})
	require.ErrorIs(t, err, backend.ErrNoMemory)
	t.Logf("refused: %v", err)
}

// limitMemory limits the address space of this process to what it has mapped now, plus
// `more` bytes.
func limitMemory(t *testing.T, more uint64) {
	statm, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	var pages uint64
	_, err = fmt.Sscan(string(statm), &pages)
	require.NoError(t, err)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_AS, &limit))
	limit.Cur = pages*uint64(os.Getpagesize()) + more
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_AS, &limit))
}
