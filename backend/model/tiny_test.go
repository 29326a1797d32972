package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/model/modeltest"
)

// open writes a model to a temporary file, and opens this file.
func open(t testing.TB, m *modeltest.Model) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, m.Write(file))
	require.NoError(t, file.Close())
	return openFile(t, path)
}

func load(t testing.TB, m *modeltest.Model) *model.Model {
	t.Helper()
	loaded, err := model.Load(open(t, m))
	require.NoError(t, err)
	return loaded
}

func openFile(t testing.TB, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}
