package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
)

// TestARunIsDrawn from what it wrote about itself: its passes, their rows and
// times, as page and as trace.
func TestARunIsDrawn(t *testing.T) {
	t.Setenv("SDNPU_CACHE", "off")
	dir := t.TempDir()
	file, page, trace := filepath.Join(dir, "run.json"), filepath.Join(dir, "run.html"), filepath.Join(dir, "trace.json")
	out, err := sdnpu(t, "run", "--model", story, "--library", "float", "--prompt", "Once upon a time. Once upon a", "-n", "24", "--draft", "sam", "--json", "--timeline", file)
	require.NoError(t, err)
	var r result
	require.NoError(t, json.Unmarshal([]byte(out), &r))

	record, err := readTimeline(file)
	require.NoError(t, err)
	require.Len(t, record.Timelines, 1)
	prompt, valid, ended := record.Timelines[0].Tasks[0], 0, 0.0
	require.InDelta(t, r.PrefillMS, prompt.EndMs, 0.01)
	for _, task := range record.Timelines[0].Tasks[1:] {
		require.Equal(t, graphswap.Verify, task.Kind)
		require.GreaterOrEqual(t, task.StartMs, ended, "passes overlap")
		ended = task.EndMs
		valid += task.Valid
	}
	require.Equal(t, len(r.OutputIDs)-1, valid, "the prompt gives the first token, passes the rest")
	require.LessOrEqual(t, ended, r.FirstTokenMS+r.DecodeMS+0.5, "beyond the end, but for what lies between readings of the clock")

	_, err = sdnpu(t, "timeline", file, "-o", page)
	require.NoError(t, err)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "<!doctype html>")
	_, err = sdnpu(t, "timeline", file, "-o", trace)
	require.NoError(t, err)
	written, err := os.ReadFile(trace)
	require.NoError(t, err)
	var events struct {
		TraceEvents []json.RawMessage `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(written, &events))
	require.Greater(t, len(events.TraceEvents), len(record.Timelines[0].Tasks))
	stdout, err := sdnpu(t, "timeline", file, "--chrome", "-o", "-")
	require.NoError(t, err)
	require.Equal(t, string(written), stdout)

	both := filepath.Join(dir, "switched.json")
	_, err = sdnpu(t, "run", "--model", story, "--library", "float", "--prompt", "Once upon a time. Once upon a", "-n", "6",
		"--plan", "sync", "--rows", "8,4", "--blocks", "2", "--timeline", both)
	require.NoError(t, err)
	record, err = readTimeline(both)
	require.NoError(t, err)
	require.Len(t, record.Timelines, 2)
	require.Equal(t, graphswap.Simulated, record.Timelines[0].Source)
	require.Equal(t, graphswap.Executed, record.Timelines[1].Source)
	require.Equal(t, "sync", record.Timelines[1].Plan.Name)
	loads := slices.DeleteFunc(slices.Clone(record.Timelines[1].Tasks), func(t graphswap.Task) bool { return t.Kind != graphswap.Create })
	require.Len(t, loads, 2, "each block goes to its narrow graph")
	passes := slices.DeleteFunc(slices.Clone(record.Timelines[1].Tasks), func(t graphswap.Task) bool { return t.Kind != graphswap.Verify })
	require.Len(t, passes, 5, "the prompt gives the first of 6 tokens")
	for _, pass := range passes {
		require.Equal(t, [3]int{4, 1, 0}, [3]int{pass.Rows, pass.Valid, pass.Wasted})
	}
	_, err = sdnpu(t, "timeline", both, "-o", page)
	require.NoError(t, err)

	_, err = sdnpu(t, "timeline", file, "-o", file)
	require.ErrorContains(t, err, "is the run itself")
	_, err = sdnpu(t, "timeline", page, "-o", trace)
	require.ErrorContains(t, err, page+": timeline: not a timeline")
	_, err = sdnpu(t, "timeline", file)
	require.ErrorContains(t, err, `"out" not set`)
}
