//go:build linux && (amd64 || arm64) && (!android || cgo)

package qnn

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStdoutStaysClean runs the linear graph in a child whose stdout is a pipe,
// and in the end empties C's buffers, where a line may still lie.
func TestStdoutStaysClean(t *testing.T) {
	const marker = "SDNPU_TEST_STDOUT_CHILD"
	if path := os.Getenv(marker); path != "" {
		s := openSession(t, path)
		l := newLinear(t, "l")
		l.run(t, l.build(t, s.backend, s.newContext(t), "g", nil))
		_, err := os.Stdout.WriteString("the child's own line\n")
		require.NoError(t, err)
		invoke(libc("fflush"), 0) // Go ends without C's exit, which would do this
		return
	}
	onEachLibrary(t, func(t *testing.T, path string) {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStdoutStaysClean$")
		child.Env = append(os.Environ(), marker+"="+path)
		out, err := child.Output()
		require.NoError(t, err, "%s", out)
		require.Equal(t, "the child's own line\nPASS\n", string(out))
	})
}
