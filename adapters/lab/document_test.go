package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documentHead separates the words of docs/papers.md from the tables of the command.
const documentHead = "\n## Tables\n\n"

// TestTheDocumentHasTheTablesOfTheCommand compares docs/papers.md with the tables that need no
// execution. If SDNPU_UPDATE is 1, the test rewrites the tables.
func TestTheDocumentHasTheTablesOfTheCommand(t *testing.T) {
	data := os.Getenv("SDNPU_DATA")
	if _, err := os.Stat(filepath.Join(data, "traces", paperModel+".jsonl")); err != nil {
		t.Skipf("the recorded texts are missing: %v", err)
	}
	dir := t.TempDir()
	_, err := lab(t, "paper", "table2", "table4", "fig3", "fig5", "fig6a", "fig6b", "fig13", "coordgen-fig5", "--known", "--data", data, "-o", dir)
	require.NoError(t, err)
	tables, err := os.ReadFile(filepath.Join(dir, paperModel, "papers.md"))
	require.NoError(t, err)
	const path = "../../docs/papers.md"
	document, err := os.ReadFile(path)
	require.NoError(t, err)
	head, body, found := strings.Cut(string(document), documentHead)
	require.True(t, found)
	if os.Getenv("SDNPU_UPDATE") == "1" {
		require.NoError(t, os.WriteFile(path, []byte(head+documentHead+string(tables)), 0o644))
		return
	}
	require.Equal(t, string(tables), body)
}

// TestTheMapsOfPlansAreThoseOfTheCommand compares the committed maps with the command that the
// README of package graphswap names.
func TestTheMapsOfPlansAreThoseOfTheCommand(t *testing.T) {
	for model, file := range map[string]string{"qwen2.5-1.5b": "regimes.svg", "llama3.2-3b": "regimes-3b.svg"} {
		want, err := lab(t, "bench", "regimes", "--as", model)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join("../../graphswap", file))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is not what the command writes", file)
	}
}
