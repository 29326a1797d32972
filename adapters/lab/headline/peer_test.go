package headline

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program of the system Peer gets Ollama's arguments first, and then the flags that the
// user gave for the system.
func TestPeerGetsTheArgumentsAndTheFlags(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the peer is started by a shell script")
	}
	dir := t.TempDir()
	server := filepath.Join(dir, "it's a server")
	require.ErrorContains(t, writePeer(filepath.Join(dir, "x"), ""), "no llama-server")
	require.ErrorIs(t, writePeer(filepath.Join(dir, "x"), filepath.Join(dir, "missing")), os.ErrNotExist)
	require.NoError(t, os.WriteFile(server, []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\n"), 0o755))
	require.NoError(t, os.Symlink(server, filepath.Join(dir, "server'")))
	path := filepath.Join(dir, "peer", "llama-server")
	require.NoError(t, writePeer(path, filepath.Join(dir, "server'")+"  --spec-type $HOME;ls"))
	out, err := exec.Command(path, "--model", "a b").Output()
	require.NoError(t, err)
	require.Equal(t, "<--model><a b><--spec-type><$HOME;ls>", string(out))
}
