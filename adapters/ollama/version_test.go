package ollama

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnlyOllamaAnswersAsOllama(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	for name, row := range map[string]struct{ program, version, says string }{
		"a server answers":  {"#!/bin/sh\n[ \"$1\" = --version ] && echo ollama version is 0.32.1\n", "0.32.1", ""},
		"no server answers": {"#!/bin/sh\necho Warning: could not connect to a running Ollama instance\necho Warning: client version is 0.30.0\n", "0.30.0", ""},
		"asks no server":    {"#!/bin/sh\necho ollama version is \"$OLLAMA_HOST\"\n", "127.0.0.1:1", ""},
		"another program":   {"#!/bin/sh\necho ls version 9.1\n", "", `its output is "ls version 9.1"`},
		"it fails":          {"#!/bin/sh\necho no such option >&2; exit 3\n", "", `exit status 3, output "no such option"`},
		"no program":        {"the text of a letter", "", "exec format error"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ollama")
			require.NoError(t, os.WriteFile(path, []byte(row.program), 0o755)) //nolint:gosec // a program
			version, err := Host{Executable: path}.Version(t.Context())
			require.Equal(t, row.version, version)
			if row.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrNotOllama)
			require.ErrorContains(t, err, row.says)
			require.ErrorContains(t, err, path)
		})
	}
	path := filepath.Join(t.TempDir(), "ollama")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nexec cat /dev/zero > /dev/null\n"), 0o755)) //nolint:gosec // a program
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Host{Executable: path}.Version(ctx)
	require.ErrorIs(t, err, ErrNotOllama)
	require.ErrorContains(t, err, "no output for")
}
