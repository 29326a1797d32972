package ollama

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUpdatesOfTheHostMakeALayoutOutdated(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		change       func(t *testing.T, h Host)
	}{
		{"nothing", "", func(*testing.T, Host) {}},
		{"the executable", "was updated since", func(t *testing.T, h Host) {
			require.NoError(t, os.Remove(h.Executable)) // an update of Ollama replaces its files and does not write into them
			write(t, "newer ollama", h.Executable)
		}},
		{"the same executable again", "", func(t *testing.T, h Host) {
			require.NoError(t, os.Remove(h.Executable))
			write(t, "ollama", h.Executable)
		}},
		{"another library", "has the new file lib/ollama/libggml-new.so", func(t *testing.T, h Host) {
			write(t, "library", h.Library, "libggml-new.so")
		}},
		{"fewer libraries", "has no file lib/ollama/libggml.so any more", func(t *testing.T, h Host) {
			require.NoError(t, os.Remove(filepath.Join(h.Library, "libggml.so")))
		}},
		{"no host", "does not exist any more", func(t *testing.T, h Host) { require.NoError(t, os.Remove(h.Executable)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			h := host(t, filepath.Join(root, "host"), exe("llama-server"), "libggml.so")
			private := filepath.Join(root, "private")
			executable, err := Lay(h, write(t, "ours", root, "sdnpu"), private)
			require.NoError(t, err)
			tt.change(t, h)
			dir, _, reason, err := Outdated(executable)
			require.NoError(t, err)
			require.Equal(t, private, dir)
			if tt.reason == "" {
				require.Empty(t, reason)
				return
			}
			require.Contains(t, reason, tt.reason)
			if _, err := os.Stat(h.Executable); err != nil {
				return
			}
			_, err = Lay(h, filepath.Join(root, "sdnpu"), private)
			require.NoError(t, err)
			_, _, reason, err = Outdated(executable)
			require.NoError(t, err)
			require.Empty(t, reason, "a second Lay mends it")
		})
	}
	t.Run("no layout", func(t *testing.T) {
		h := host(t, t.TempDir())
		_, _, reason, err := Outdated(h.Executable)
		require.NoError(t, err)
		require.Empty(t, reason)
	})
}
