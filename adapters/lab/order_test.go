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
)

func TestOrderPrintsEachPolicyWithThePublishedValue(t *testing.T) {
	out, err := lab(t, "shadow", "order", "--costs", "example", "--chunks", "1,4")
	require.NoError(t, err)
	words := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"example: prompt of 1 × 256 tokens, 24 layers, window 4 (simulated; costs invented",
		"example: prompt of 4 × 256 tokens",
		"in_order 630.30 ms 1625 22.32 % 1.287 +0.0 % 37 % bubbles",
		"chunk_first 501.95 ms 2040 2.46 % 1.025 -20.4 % fifo",
		"c_rule 493.60 ms 2075 0.81 % 1.008 -21.7 % -18 to -44 % time",
		"feed_npu 489.90 ms 2090 0.06 % 1.001 -22.3 % lower bound 489.60 ms one at a time 631.20 ms",
	} {
		require.Contains(t, words, want)
	}
}

// With --costs-file, a file that holds the built-in costs "example" gives the same JSON as
// --costs example. The timeline that the command writes can be read.
func TestOrderReadsCostsAndWritesATimeline(t *testing.T) {
	text, err := json.Marshal(shadow.KnownCosts[1])
	require.NoError(t, err)
	picture := filepath.Join(t.TempDir(), "order.json")
	fromFile, err := lab(t, "shadow", "order", "--json", "--costs-file", textFile(t, "costs.json", string(text)), "--timeline", picture)
	require.NoError(t, err)
	known, err := lab(t, "shadow", "order", "--json", "--costs", "example")
	require.NoError(t, err)
	require.Equal(t, known, fromFile)
	var o shadow.Order
	require.NoError(t, json.Unmarshal([]byte(known), &o))
	require.InDelta(t, 489.6, o.BoundMs, 1e-9)
	require.Equal(t, "simulated", o.Kind)
	require.Equal(t, outoforder.FeedNPU, o.Policies[5].Policy)
	file, err := os.Open(picture)
	require.NoError(t, err)
	defer file.Close()
	r, err := timeline.Read(file)
	require.NoError(t, err)
	require.Len(t, r.Timelines, 6)
	for _, line := range r.Timelines {
		require.Len(t, line.Tasks, 4*24*6)
	}
}

func TestOrderRejectsBadFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--costs mine":                   `--costs "mine": want qwen1.5-1.8b or example`,
		"--chunks 0":                     "0 chunks: want 1..4096",
		"--chunks 4096":                  "4096 chunks of 24 layers with 6 stages",
		"--window -1":                    "chunk window -1: want 1 or more chunks",
		"--costs example --costs-file x": "--costs and --costs-file exclude each other",
		"--costs-file " + textFile(t, "c.json", "{}"): "0 rows in a chunk: want 1..4096",
		"--costs-file " + textFile(t, "c.json", "{"):  "c.json: no costs of stages: ",
	} {
		_, err := lab(t, append([]string{"shadow", "order"}, strings.Fields(args)...)...)
		require.ErrorContains(t, err, want, args)
	}
}
