package llamaserver

import (
	"math"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
)

// event is one part of a completion in llama-server's form; the fields after
// Probabilities are those of the last.
type event struct {
	Content       string        `json:"content"`
	Stop          bool          `json:"stop"`
	Probabilities []probability `json:"completion_probabilities,omitempty"`

	StopType engine.StopReason `json:"stop_type,omitempty"`
	Timings  *timings          `json:"timings,omitempty"`
	Sdnpu    *effects          `json:"sdnpu,omitempty"`
}

type timings struct {
	CacheN      int     `json:"cache_n"`
	PromptN     int     `json:"prompt_n"`
	PromptMS    float64 `json:"prompt_ms"`
	PredictedN  int     `json:"predicted_n"`
	PredictedMS float64 `json:"predicted_ms"`
}

// effects is what the engine did: the part of the report that llama-server
// has no words for.
type effects struct {
	Recipe      string           `json:"recipe"`
	Widths      []int            `json:"widths"`
	Blocks      int              `json:"blocks"`
	Steps       int              `json:"steps"`
	ValidRows   int              `json:"valid_rows"`
	PaddingRows int              `json:"padding_rows"`
	Lanes       map[string]int64 `json:"lanes"`
	TTFTMS      float64          `json:"ttft_ms"`
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
		Stop:     true,
		StopType: r.Stop,
		Timings: &timings{
			CacheN:      r.CachedTokens,
			PromptN:     r.PromptTokens,
			PromptMS:    milliseconds(r.Prefill),
			PredictedN:  r.OutputTokens,
			PredictedMS: milliseconds(r.Decode),
		},
		Sdnpu: &effects{
			Steps:       r.Steps,
			ValidRows:   r.ValidRows,
			PaddingRows: r.PaddingRows,
			Recipe:      r.Recipe, Widths: r.Widths, Blocks: r.Blocks,
			Lanes:  laneOps(r),
			TTFTMS: milliseconds(r.FirstToken),
		},
	}
}

// laneOps always names both lanes: a zero is the point of the report.
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

// finite gives -Inf a number, for JSON has none.
func finite(logprob float32) float32 {
	if math.IsNaN(float64(logprob)) {
		return -math.MaxFloat32
	}
	return min(max(logprob, -math.MaxFloat32), math.MaxFloat32)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
