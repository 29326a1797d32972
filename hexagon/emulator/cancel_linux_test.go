package emulator

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCancelledBuildKillsTheCompiler(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "started")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	compiler, _ := fakeCompiler(t, "echo > "+pipe+"; exec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := Build(ctx, Options{Dir: t.TempDir(), CC: compiler})
		done <- err
	}()
	_, err := os.ReadFile(pipe) // returns once a compiler runs
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}
