package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/sdnpu/sdnpu/adapters/timeline"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/graphswap"
)

// writeTimeline writes what a request did for sdnpu timeline.
func writeTimeline(ctx context.Context, path, model string, l *loaded, r engine.Report) error {
	if r.Plan == nil {
		return nil // nothing was computed
	}
	record := timeline.Record{
		Title:     fmt.Sprintf("%s: %d prompt tokens, %d of output", filepath.Base(model), r.PromptTokens, r.OutputTokens),
		Device:    describe(l.device.Capabilities()),
		Timelines: []*graphswap.Timeline{&r.Plan.Timeline},
	}
	if paced := r.Clock.Paced; paced != "" { // names the kind of its profile
		record.Device += ", in the time of " + paced
	}
	if r.Plan.Costs != "" {
		record.Device += "; planned " + r.Plan.Costs
	}
	if r.Plan.Predicted != nil { // it stands above
		record.Timelines = append([]*graphswap.Timeline{r.Plan.Predicted}, record.Timelines...)
	}
	return writeFile(ctx, path, 0o644, func(w io.Writer) error { return record.Write(w) })
}
