package ollama

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func write(t *testing.T, text string, path ...string) string {
	file := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o755))
	return file
}

func read(t *testing.T, path ...string) string {
	b, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(b)
}

func host(t *testing.T, root string, files ...string) Host {
	write(t, "ollama", root, "bin", exe("ollama"))
	for _, f := range files {
		write(t, "host's "+f, root, "lib", "ollama", f)
	}
	h, err := Find(filepath.Join(root, "bin", exe("ollama")))
	require.NoError(t, err)
	return h
}

func TestLayoutHasOurProgramAndTheHostsFiles(t *testing.T) {
	root := t.TempDir()
	h := host(t, filepath.Join(root, "host"), exe("llama-server"), exe("llama-quantize"), "cuda/libggml-cuda.so")
	require.NotEmpty(t, h.Runner)
	program, private := write(t, "ours", root, "sdnpu"), filepath.Join(root, "private")
	for range 2 { // the second call of Lay must give the same layout as the first call
		executable, err := Lay(h, program, private)
		require.NoError(t, err)
		require.Equal(t, "ollama", read(t, executable))
		info, err := os.Lstat(executable)
		require.NoError(t, err)
		require.True(t, info.Mode().IsRegular(), "Ollama resolves symbolic links, so its executable must not be one")
		lib := filepath.Join(private, "lib", "ollama")
		require.Equal(t, "ours", read(t, lib, exe("llama-server")))
		require.Equal(t, "host's "+exe("llama-server"), read(t, lib, exe("llama-server.orig")))
		require.Equal(t, "host's "+exe("llama-quantize"), read(t, lib, exe("llama-quantize")))
		require.Equal(t, "host's cuda/libggml-cuda.so", read(t, lib, "cuda", "libggml-cuda.so"))
	}
	require.Equal(t, "host's "+exe("llama-server"), read(t, h.Runner), "the host is not changed")
}

func TestLayoutWithoutHelpersUsesOurProgramAsQuantize(t *testing.T) {
	root := t.TempDir()
	h := host(t, filepath.Join(root, "host"))
	require.Empty(t, h.Runner)
	program := write(t, "ours", root, "sdnpu")
	_, err := Lay(h, program, filepath.Join(root, "private"))
	require.NoError(t, err)
	require.Equal(t, "ours", read(t, root, "private", "lib", "ollama", exe("llama-quantize")))
	require.NoFileExists(t, filepath.Join(root, "private", "lib", "ollama", exe("llama-server.orig")))
}

func TestLayoutRemovesLinksToDeletedFiles(t *testing.T) {
	root := t.TempDir()
	h := host(t, filepath.Join(root, "host"), "old.so", exe("llama-server"))
	program, private := write(t, "ours", root, "sdnpu"), filepath.Join(root, "private")
	_, err := Lay(h, program, private)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(h.Library, "old.so")))
	_, err = Lay(h, program, private)
	require.NoError(t, err)
	_, err = os.Lstat(filepath.Join(private, "lib", "ollama", "old.so"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestLayoutInTheHostsFolderIsRejected(t *testing.T) {
	root := t.TempDir()
	h := host(t, root, exe("llama-server"))
	_, err := Lay(h, write(t, "ours", root, "sdnpu"), root)
	require.ErrorContains(t, err, "own folder")
	require.Equal(t, "host's "+exe("llama-server"), read(t, h.Runner))
}

func TestFindReportsAMissingExecutable(t *testing.T) {
	_, err := Find(filepath.Join(t.TempDir(), "ollama"))
	require.ErrorIs(t, err, ErrNotFound)
}

func TestLayoutOfALayoutLinksToTheHostsRunner(t *testing.T) {
	root := t.TempDir()
	h := host(t, filepath.Join(root, "host"), exe("llama-server"))
	program := write(t, "ours", root, "sdnpu")
	first, err := Lay(h, program, filepath.Join(root, "first"))
	require.NoError(t, err)
	again, err := Find(first)
	require.NoError(t, err)
	_, err = Lay(again, program, filepath.Join(root, "second"))
	require.NoError(t, err)
	lib := filepath.Join(root, "second", "lib", "ollama")
	require.Equal(t, "host's "+exe("llama-server"), read(t, lib, exe("llama-server.orig")))
	require.Equal(t, "ours", read(t, lib, exe("llama-server")))
}

func TestRelativePathOfAHostIsLinkedAsAbsolute(t *testing.T) {
	root := t.TempDir()
	host(t, filepath.Join(root, "host"), exe("llama-server"))
	program := write(t, "ours", root, "sdnpu")
	t.Chdir(root)
	h, err := Find(filepath.Join("host", "bin", exe("ollama")))
	require.NoError(t, err)
	_, err = Lay(h, program, filepath.Join(root, "private"))
	require.NoError(t, err)
	require.Equal(t, "host's "+exe("llama-server"), read(t, root, "private", "lib", "ollama", exe("llama-server.orig")))
}

func TestLayoutInAHostWithoutHelpersIsRejected(t *testing.T) {
	root := filepath.Join(t.TempDir(), "host")
	h := host(t, root)
	_, err := Lay(h, write(t, "ours", t.TempDir(), "sdnpu"), root)
	require.ErrorContains(t, err, "the host's own folder")
	require.NoDirExists(t, filepath.Join(root, "lib"))
}
