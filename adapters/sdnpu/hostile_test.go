package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

const story = "../../integration_test/models/stories260K-f16.gguf"

func TestThisProgramIsNeverItsOwnOriginal(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), "llama-server")
	if err := os.Symlink(self, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	_, err = settings{original: link}.findOriginal(link)
	require.ErrorIs(t, err, errOriginalIsUs)

	require.NoError(t, os.Symlink(self, filepath.Join(filepath.Dir(link), "llama-server.orig")))
	found, err := settings{}.findOriginal(link)
	require.NoError(t, err)
	require.Empty(t, found, "a link back to us is no original")
	require.ErrorIs(t, dispatch(t.Context(), []string{"/lib/llama-server.orig", "--model", "m"}), errOriginalIsUs)
}

func TestTheQuantizeStandInNeverWritesOverWhatItReads(t *testing.T) {
	dir := t.TempDir()
	in, out, hard := filepath.Join(dir, "in.gguf"), filepath.Join(dir, "out.gguf"), filepath.Join(dir, "hard.gguf")
	want, err := os.ReadFile(story)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(in, want, 0o600))
	require.NoError(t, os.Link(in, hard))
	for _, target := range []string{in, hard} {
		require.ErrorContains(t, quantizeStandIn(t.Context(), io.Discard, []string{in, target, "COPY"}), "name another")
	}
	require.NoError(t, quantizeStandIn(t.Context(), io.Discard, []string{"--allow-requantize", in, out, "COPY"}))
	for _, path := range []string{in, out} {
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, string(want) == string(got), path)
	}
}

func TestTheQuantizeStandInFillsTheFileThatOllamaHoldsOpen(t *testing.T) {
	held, err := os.CreateTemp(t.TempDir(), "COPY")
	require.NoError(t, err)
	defer held.Close()
	require.NoError(t, quantizeStandIn(t.Context(), io.Discard, []string{story, held.Name(), "COPY"}))
	got, err := io.ReadAll(held)
	require.NoError(t, err)
	want, err := os.ReadFile(story)
	require.NoError(t, err)
	require.True(t, string(want) == string(got), "read through the handle from before: %d bytes of %d", len(got), len(want))
}

func TestAnInterruptedOrMisdirectedCopyLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	done, cancel := context.WithCancel(t.Context())
	out := filepath.Join(dir, "out.gguf")
	err := writeFile(done, out, 0o600, func(w io.Writer) error {
		_, err := w.Write(make([]byte, 10))
		require.NoError(t, err)
		cancel()
		_, err = w.Write(make([]byte, 10))
		return err
	})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, writeFile(t.Context(), dir, 0o600, func(io.Writer) error { return nil }), "no regular file")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestWithoutAHomeTheCacheIsPrivateOrRefused(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the variables are Linux's")
	}
	temp := t.TempDir()
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("TMPDIR", temp)
	for range 2 { // made, then found
		folder, err := cacheFolder("images")
		require.NoError(t, err)
		require.Equal(t, temp, filepath.Dir(filepath.Dir(folder)))
	}
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	base := filepath.Join(temp, entries[0].Name())
	require.NoError(t, os.Chmod(base, 0o777))
	_, err = cacheFolder("images")
	require.ErrorContains(t, err, "not a private folder")
	require.NoError(t, os.Remove(base))
	require.NoError(t, os.Symlink(t.TempDir(), base))
	_, err = cacheFolder("images")
	require.ErrorContains(t, err, "not a private folder")
}
