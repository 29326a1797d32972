package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
)

func TestAProfileIsMeasuredPrintedAndKept(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SDNPU_CACHE", filepath.Join(dir, "images"))
	file := filepath.Join(dir, "own.json")
	args := []string{"profile", story, "--library", "float", "--rows", "8,1", "--blocks", "2", "--repeats", "1"}
	text, err := sdnpu(t, append(args, "--json", "-o", file)...)
	require.NoError(t, err)
	p, err := graphswap.ParseProfile([]byte(text))
	require.NoError(t, err)
	require.Equal(t, graphswap.Measured, p.Kind)
	m := measuredModel(p)
	require.Len(t, m.Blocks, 2)
	require.Equal(t, []int{8, 1}, measuredRows(p))
	require.NotNil(t, m.Head)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, text, string(written))
	kept, err := filepath.Glob(filepath.Join(dir, "images", "profiles", "*.json"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	stored, err := os.ReadFile(kept[0])
	require.NoError(t, err)
	require.Equal(t, text, string(stored))

	table, err := sdnpu(t, args...)
	require.NoError(t, err)
	require.Contains(t, table, "block1")
	require.Contains(t, table, "kept as "+kept[0])
	_, err = sdnpu(t, append(args, "--repeats", "0")...)
	require.ErrorContains(t, err, "--repeats 0")
}
