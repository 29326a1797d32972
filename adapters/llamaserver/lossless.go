package llamaserver

import (
	"fmt"
	"strings"

	"github.com/sdnpu/sdnpu/backend/engine"
)

// Lossless is what drafts can change of a text, as reports show it.
type Lossless struct {
	// Exact tells that each token of the answer was computed on graphs of Width
	// rows; null where the width was free.
	Exact bool `json:"exact"`
	Width *int `json:"width"`
	// FlipsPerThousand is at how many of a thousand positions another pass would
	// have led to another token, measured over Positions; null where it was not,
	// and Measure then says how to.
	FlipsPerThousand *float64 `json:"flips_per_1000"`
	Positions        int      `json:"positions"`
	Measure          string   `json:"measure,omitempty"`
}

// LosslessOf puts a report's part into that form.
func LosslessOf(report engine.Report) Lossless {
	l := report.Lossless
	r := Lossless{Exact: l.Exact}
	if l.Exact {
		r.Width = &l.Width
	}
	if l.Flips == nil {
		r.Measure = measureFlips(report)
		return r
	}
	flips := l.Flips.PerThousand()
	r.FlipsPerThousand, r.Positions = &flips, l.Flips.Positions
	return r
}

// measureFlips is the command that finds out what is not known.
func measureFlips(r engine.Report) string {
	var b strings.Builder
	if plan := r.Lossless.MeasuredOn; plan != "" {
		fmt.Fprintf(&b, "SDNPU_PLAN=%s ", plan)
	}
	if r.Lossless.Exact {
		b.WriteString("SDNPU_EXACT=true ")
	}
	fmt.Fprintf(&b, "sdnpu doctor MODEL.gguf --recipe %s --rows %s, with this library", r.Recipe,
		strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Widths), " ", ","), "[]"))
	return b.String()
}
