package llamaserver

import "github.com/sdnpu/sdnpu/backend/engine"

// measureFlips says how to find out what is not known.
const measureFlips = "sdnpu doctor MODEL.gguf, with the settings of this model (SDNPU_ROWS, SDNPU_EXACT, ...) and this library"

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
func LosslessOf(l engine.Lossless) Lossless {
	r := Lossless{Exact: l.Exact}
	if l.Exact {
		r.Width = &l.Width
	}
	if l.Flips == nil {
		r.Measure = measureFlips
		return r
	}
	flips := l.Flips.PerThousand()
	r.FlipsPerThousand, r.Positions = &flips, l.Flips.Positions
	return r
}
