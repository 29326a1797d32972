package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/sdnpu/sdnpu/adapters/timeline"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/graphswap"
)

// writeTimeline writes what a request did for sdnpu timeline.
func writeTimeline(ctx context.Context, path, model string, l *loaded, r engine.Report) error {
	record := timeline.Record{
		Title:     fmt.Sprintf("%s: %d prompt tokens, %d of output", filepath.Base(model), r.PromptTokens, r.OutputTokens),
		Device:    describe(l.device.Capabilities()),
		Timelines: []*graphswap.Timeline{executed(r)},
	}
	if paced := l.engine.Paced(); paced != "" { // names the kind of its profile
		record.Device += ", in the time of " + paced
	}
	if r.Plan != nil && r.Plan.Costs != "" {
		record.Device += "; planned " + r.Plan.Costs
	}
	if r.Plan != nil && r.Plan.Predicted != nil { // it stands above
		record.Timelines = append([]*graphswap.Timeline{r.Plan.Predicted}, record.Timelines...)
	}
	return writeFile(ctx, path, 0o644, func(w io.Writer) error { return record.Write(w) })
}

// executed is the timeline of a whole request: the plan's, or where graphs stay
// as they are one bar for the prompt and a bar for each pass behind it.
func executed(r engine.Report) *graphswap.Timeline {
	if r.Plan != nil {
		return &r.Plan.Timeline
	}
	t := &graphswap.Timeline{Source: graphswap.Executed, Plan: &graphswap.Plan{Name: r.Residency, Blocks: r.Blocks}}
	t.PrefillMs = milliseconds(r.Prefill)
	t.SwitchEndMs, t.NPUBusyMs = t.PrefillMs, t.PrefillMs
	t.Tasks = []graphswap.Task{{
		Lane: graphswap.NPU, Kind: graphswap.Run, EndMs: t.PrefillMs, Block: -1, Graph: graphswap.G1, Index: -1,
	}}
	t.Tasks = append(t.Tasks, verifications(r)...)
	return t
}

// verifications are the passes behind the prompt, which is chunk 0.
func verifications(r engine.Report) (tasks []graphswap.Task) {
	for i, v := range r.Verifications {
		start := v.Began.Sub(r.Began)
		tasks = append(tasks, graphswap.Task{
			Lane: graphswap.NPU, Kind: graphswap.Verify, StartMs: milliseconds(start), EndMs: milliseconds(start + v.Pass), Block: -1,
			Graph: graphswap.G2, Index: -1, Chunk: 1 + i, Runs: r.Blocks, Rows: v.Width, Valid: 1 + v.Accepted + v.Shared, Wasted: v.Drafted - v.Accepted,
		})
	}
	return tasks
}

func milliseconds(d time.Duration) float64 { return max(0, float64(d)/float64(time.Millisecond)) }
