package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/internal/recorded"
)

// TestShadowSharingCountsGraphs compares the printed table of a prompt of two chunks.
func TestShadowSharingCountsGraphs(t *testing.T) {
	out, err := lab(t, "shadow", "sharing", recorded.File(t, "f32"), "--count", "--prompts", "512", "--blocks", "2")
	require.NoError(t, err)
	require.Regexp(t, `512 +each position +4 `, out)
	require.Regexp(t, `512 +all chunks +2 .* 50\.0 %`, out)
	require.Contains(t, out, "120 of 144 subgraphs")
}
