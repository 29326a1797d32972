package llamaserver

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
)

// event is one event of a completion in llama-server's form. Only the last event of a
// completion has the fields after Probabilities.
type event struct {
	Content       string        `json:"content"`
	Stop          bool          `json:"stop"`
	Probabilities []probability `json:"completion_probabilities,omitempty"`

	StopType  engine.StopReason `json:"stop_type,omitempty"`
	Truncated *bool             `json:"truncated,omitempty"`
	Timings   *timings          `json:"timings,omitempty"`
	Sdnpu     *effects          `json:"sdnpu,omitempty"`
}

type timings struct {
	CacheN      int     `json:"cache_n"`
	PromptN     int     `json:"prompt_n"`
	PromptMS    float64 `json:"prompt_ms"`
	PredictedN  int     `json:"predicted_n"`
	PredictedMS float64 `json:"predicted_ms"`
}

// effects is the part of the engine's report for which llama-server has no
// fields.
type effects struct {
	Recipe      string           `json:"recipe"`
	Widths      []int            `json:"widths"`
	Blocks      int              `json:"blocks"`
	Context     int              `json:"context"`
	Growths     []growth         `json:"growths,omitempty"`
	Shifts      int              `json:"shifts"`
	Dropped     int              `json:"dropped_tokens"`
	Steps       int              `json:"steps"`
	ValidRows   int              `json:"valid_rows"`
	SharedRows  int              `json:"shared_rows"`
	PaddingRows int              `json:"padding_rows"`
	Lossless    Lossless         `json:"lossless"`
	Lanes       map[string]int64 `json:"lanes"`
	TTFTMS      float64          `json:"ttft_ms"`
}

// growth is a switch to a longer context tier.
type growth struct {
	From      int     `json:"from"`
	To        int     `json:"to"`
	TookMS    float64 `json:"took_ms"`
	MovedMS   float64 `json:"moved_ms"`
	PeakBytes int64   `json:"peak_bytes"`
}

func growths(r engine.Report) []growth {
	var list []growth
	for _, g := range r.Growths {
		list = append(list, growth{g.From, g.To, milliseconds(g.Took), milliseconds(g.Moved), g.PeakBytes})
	}
	return list
}

type probability struct {
	ID      int32         `json:"id"`
	Token   string        `json:"token"`
	Logprob float32       `json:"logprob"`
	Top     []probability `json:"top_logprobs,omitempty"`
}

func pieceEvent(p engine.Piece, probs bool) event {
	e := event{Content: p.Text}
	if probs {
		e.Probabilities = probabilities(p.Tokens)
	}
	return e
}

func finalEvent(r engine.Report) event {
	return event{
		Stop:      true,
		StopType:  r.Stop,
		Truncated: &r.Truncated,
		Timings: &timings{
			CacheN:      r.CachedTokens,
			PromptN:     r.PromptTokens,
			PromptMS:    milliseconds(r.Prefill),
			PredictedN:  r.OutputTokens,
			PredictedMS: milliseconds(r.Decode),
		},
		Sdnpu: &effects{
			Context: r.Context, Growths: growths(r), Shifts: r.Shifts, Dropped: r.DroppedTokens,
			Steps:       r.Steps,
			ValidRows:   r.ValidRows,
			SharedRows:  r.SharedRows,
			PaddingRows: r.PaddingRows,
			Recipe:      r.Recipe, Widths: r.Widths, Blocks: r.Blocks,
			Lossless: LosslessOf(r),
			Lanes:    laneOps(r),
			TTFTMS:   milliseconds(r.FirstToken),
		},
	}
}

// laneOps returns the operators that ran on each lane (NPU or CPU). laneOps includes
// lanes without operators, because the report must show that the CPU runs none.
func laneOps(r engine.Report) map[string]int64 {
	ops := map[string]int64{"npu_ops": r.Ops[backend.NPU], "cpu_ops": r.Ops[backend.CPU]}
	for lane, n := range r.Ops {
		ops[string(lane)+"_ops"] = n
	}
	return ops
}

func probabilities(tokens []engine.TokenLogprob) []probability {
	out := make([]probability, 0, len(tokens))
	for _, t := range tokens {
		out = append(out, probability{
			ID: t.ID, Token: t.Text, Logprob: finite(t.Logprob), Top: probabilities(t.Top),
		})
	}
	return out
}

// finite replaces infinities and NaN, which JSON does not have.
func finite(logprob float32) float32 {
	if math.IsNaN(float64(logprob)) {
		return -math.MaxFloat32
	}
	return min(max(logprob, -math.MaxFloat32), math.MaxFloat32)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Lossless tells in reports how drafts can change an answer.
type Lossless struct {
	// If Exact is set, each token of the answer was computed on graphs of Width rows.
	// If Exact is not set, Width is null.
	Exact bool `json:"exact"`
	Width *int `json:"width"`
	// FlipsPerThousand is the rate at which the graph width changes the top token,
	// per thousand positions, measured at Positions. If the rate was not measured,
	// FlipsPerThousand is null, and Measure is the command that measures it.
	FlipsPerThousand *float64 `json:"flips_per_1000"`
	Positions        int      `json:"positions"`
	Measure          string   `json:"measure,omitempty"`
}

// LosslessOf makes the field lossless of an answer from an engine's report.
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

// measureFlips returns the command that measures the flips.
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
