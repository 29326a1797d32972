package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/lab/shadow"
	"github.com/sdnpu/sdnpu/adapters/timeline"
	"github.com/sdnpu/sdnpu/graphswap/outoforder"
	"github.com/sdnpu/sdnpu/internal/recorded"
)

// TestShadowExecuteComparesAllPolicies runs two chunks on the float device, whose times are real. No
// policy takes less than the lower bound or longer than all tasks one after the other.
func TestShadowExecuteComparesAllPolicies(t *testing.T) {
	t.Setenv("SDNPU_LIBRARY", "float")
	t.Setenv("SDNPU_CACHE", t.TempDir())
	picture := filepath.Join(t.TempDir(), "order.json")
	text := textFile(t, "text", strings.Repeat("Once upon a time, there was a little cat. ", 40))
	out, err := lab(t, "shadow", "execute", recorded.File(t, "f32"), "--text", text, "--chunks", "2", "--rows", "16", "--repeats", "2", "--json", "--timeline", picture)
	require.NoError(t, err)
	var o shadow.Order
	require.NoError(t, json.Unmarshal([]byte(out), &o))
	require.Equal(t, 2, o.Chunks)
	require.Len(t, o.Policies, len(outoforder.Policies()))
	for _, p := range o.Policies {
		require.GreaterOrEqual(t, p.MakespanMs, o.BoundMs-1e-6)
		require.LessOrEqual(t, p.MakespanMs, o.SerialMs+1e-6)
		require.Positive(t, p.Rate)
	}
	file, err := os.Open(picture)
	require.NoError(t, err)
	defer file.Close()
	record, err := timeline.Read(file)
	require.NoError(t, err)
	require.Len(t, record.Timelines, len(o.Policies))
}

func TestShadowExecuteRejectsOtherNumbersOfChunks(t *testing.T) {
	_, err := lab(t, "shadow", "execute", "m.gguf", "--text", "t", "--chunks", "5")
	require.ErrorContains(t, err, "want 2..4 chunks")
}
