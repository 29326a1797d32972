package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/lab/bench"
	"github.com/sdnpu/sdnpu/spec"
)

// TestAutomaticDraftsAreNeverMuchSlowerOnDeviceProfiles runs the engine with its default
// settings on two devices: on one device the time of a pass grows fast with the width,
// and on the other device slowly.
func TestAutomaticDraftsAreNeverMuchSlowerOnDeviceProfiles(t *testing.T) {
	folder := t.TempDir()
	prompts, lines := filepath.Join(folder, "p.jsonl"), ""
	for i, text := range []string{"One day", "Lily and Ben", "Once upon a time", "The dog ran. The dog ran. The dog"} {
		lines += fmt.Sprintf(`{"task":"tale","id":"%d","prompt":[{"role":"user","content":%q}]}`+"\n", i, text)
	}
	require.NoError(t, os.WriteFile(prompts, []byte(lines), 0o600))
	t.Setenv("SDNPU_CACHE", "off")
	command := []string{"bench", "drafts", "--prompts", prompts, "--model", withTemplate(t, folder), "-n", "12,60", "--device", "sd8gen3,estimated-sm8650"}
	out, err := lab(t, append(command, "--json")...)
	require.NoError(t, err)
	var pairs []bench.Pair
	for line := range strings.Lines(out) {
		var p bench.Pair
		require.NoError(t, json.Unmarshal([]byte(line), &p))
		pairs = append(pairs, p)
	}
	require.Len(t, pairs, 8)
	for i, p := range pairs {
		require.False(t, p.Different)
		require.Positive(t, p.Off.Decode)
		require.Equal(t, p.Off.Tokens, p.Auto.Tokens)
		require.Equal(t, p.Off.Tokens-1, p.Off.Passes)
		require.LessOrEqual(t, p.Auto.First-p.Auto.PromptDrafting, 1.02*p.Off.First, "%+v", p)
		require.LessOrEqual(t, p.Auto.Decode-p.Auto.Drafting, (1+spec.RequestLimit)*p.Off.Decode*1.001, "%+v", p)
		require.Positive(t, p.Auto.Drafting)
		require.Positive(t, p.Auto.PromptDrafting)
		require.Zero(t, p.Off.Drafting)
		// the time of drafting is left out, because processor time differs from run to
		// run
		pairs[i].Auto.Decode -= p.Auto.Drafting
		pairs[i].Auto.First -= p.Auto.PromptDrafting
	}
	for _, c := range bench.SumPairs(pairs) {
		require.LessOrEqual(t, c.Whole, 1+spec.TotalLimit, "%+v", c)
		if c.Device == "estimated-sm8650" && c.Limit != 12 {
			require.Less(t, c.Ratio, 0.9, "%+v", c)
		}
	}
	for _, wrong := range [][]string{{"-n", "1"}, {"--device", "sd8gen9"}, {"--items", "-1"}, {"--runs", "0"}} {
		_, err := lab(t, append(command, wrong...)...)
		require.Error(t, err, wrong)
	}
}
