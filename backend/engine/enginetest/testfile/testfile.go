// Package testfile opens model files for tests. The package does not import package
// engine, so tests in that package and its sub-packages can use it. Package
// enginetest opens engines.
package testfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// Open opens a model file and its tokenizer, and closes them at the end of the test.
func Open(t testing.TB, path string) (*model.Model, *tokenizer.Tokenizer) {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	m, err := model.Load(f)
	require.NoError(t, err)
	tok, err := tokenizer.New(f)
	require.NoError(t, err)
	return m, tok
}

// Stories returns the path of one of the models in this repository. The model's name
// is a key of expected.json: f32, f16, qwen2-f16, ….
func Stories(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "integration_test", "models", "stories260K-"+name+".gguf")
		}
		require.NotEqual(t, dir, filepath.Dir(dir), "the test does not run in the repository")
	}
}
