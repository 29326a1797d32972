package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// FuzzKeptFiles reads anything as the files that this program keeps, and that
// somebody may have touched: ranges, checks, the manifest of prepared images.
func FuzzKeptFiles(f *testing.F) {
	const digest = "abc"
	f.Add([]byte(`{"version":1,"digest":"abc","tensors":{"x":{"low":-1,"high":2}}}`))
	f.Add([]byte(`{"digest":"abc","recipe":"w8a16","share":0.5}`))
	f.Add([]byte(`{"schema":"sdnpu-prepared-1","images":[{"weights_shared":true}]}`))
	f.Add([]byte(`{"schema":"sdnpu-prepared-2","prepared":[{"images":[{"weights_shared":true}]},null,{"rows":[1]}]}`))
	f.Add([]byte(`{"images":[null]}`))
	folder := f.TempDir()
	s := settings{cache: folder}
	recipe, err := model.FindRecipe("w8a16")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, path := range []string{s.rangesPath(digest), s.checkPath(digest, recipe.Name), filepath.Join(folder, manifestFile)} {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, data, 0o600))
		}
		if r, err := readRanges(s.rangesPath(digest), digest); err == nil {
			require.NotEmpty(t, r.Tensors)
			require.NotEmpty(t, rangesDigest(r))
		}
		if check, known := s.lastCheck(digest, recipe); known {
			require.NotNil(t, check)
			_ = s.passes(digest, recipe)
		}
		require.NotNil(t, settings{prepared: []string{folder}}.lookAtPrepared(&backend.Capabilities{}))
		entries, err := s.kept()
		require.NoError(t, err)
		require.Len(t, entries, 2, "whatever they hold, they can be listed and cleared")
	})
}

// FuzzDatabaseText reads anything as lines that a database is to learn.
func FuzzDatabaseText(f *testing.F) {
	f.Add(`{"output_ids":[1,2,3]}`)
	f.Add(`{"messages":[{"content":"a"},{}]}`)
	f.Add(`{"text":"b"}` + "\n\n" + `{"output":"c"}`)
	file, err := gguf.Open("../../integration_test/models/stories260K-f16.gguf")
	require.NoError(f, err)
	f.Cleanup(func() { _ = file.Close() })
	tok, err := tokenizer.New(file)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func(*textReader, io.Reader) error{(*textReader).readLines, (*textReader).readText} {
			r := &textReader{tok: tok, more: func() error { return nil }}
			if read(r, strings.NewReader(text)) == nil {
				for _, d := range r.documents {
					require.NotEmpty(t, d.Tokens)
				}
			}
		}
	})
}
