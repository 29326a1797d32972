package database

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// FuzzDatabaseText reads arbitrary bytes as the lines of a text file that is imported
// into a database.
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
			r := &textReader{tok: tok, check: func() error { return nil }}
			if read(r, strings.NewReader(text)) == nil {
				for _, d := range r.documents {
					require.NotEmpty(t, d.Tokens)
				}
			}
		}
	})
}
