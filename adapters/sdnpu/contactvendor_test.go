package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/contact"
	"github.com/sdnpu/sdnpu/hexagon/librarytest"
)

// TestAFirstContactWithTheVendorsLibrary runs through, step by step, on the real
// library, which emulates the NPU here: with few widths and a short context,
// since a row takes it half a second.
func TestAFirstContactWithTheVendorsLibrary(t *testing.T) {
	library, dir := librarytest.VendorAtLength(t), t.TempDir()
	t.Setenv("SDNPU_CACHE", filepath.Join(dir, "images"))
	t.Setenv("SDNPU_COMPILE", "inline")
	t.Setenv("SDNPU_SOC", "57")
	file := filepath.Join(dir, "report.json")
	table, err := sdnpu(t, "profile", story, "--library", library, "--first-contact", "-o", file,
		"--rows", "16,1", "--blocks", "2", "--context", "24", "--repeats", "1")
	require.NoError(t, err)
	require.Contains(t, table, "of 4 texts equal (recorded)")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r contact.Report
	require.NoError(t, json.Unmarshal(text, &r))
	for _, s := range r.Steps {
		require.True(t, s.OK, "%s: %s", s.Name, s.Error)
	}
	require.Equal(t, r.Tokens.Tokens, r.Tokens.Equal)
	require.Equal(t, "HTP_QTI_AISW", r.Device.Provider)
	require.False(t, r.Device.SharesConstants || r.Device.SwapsGraphs, "both are claimed and refused")
	require.Contains(t, r.Subject, "emulates the NPU")
	require.Len(t, r.Graphs.List, 6, "two blocks and the head, two widths each")
	require.NotNil(t, r.Profile)
	require.FileExists(t, r.Kept)
}
