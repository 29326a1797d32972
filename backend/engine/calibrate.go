package engine

import (
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
)

// Calibration tells what was done to learn what the model thought likely behind
// a prompt's tokens.
type Calibration struct {
	// Rows counts the tokens behind which that was read: those of the prompt that
	// were computed, or none.
	Rows int
	// Cost and Gain were predicted: what the head takes for these rows, and the
	// time of decoding that is saved. They are zero where nothing had been measured
	// yet, or nothing was to be decided.
	Cost, Gain time.Duration
	// Took is the time spent on what was read, beside the device's passes; CPU is
	// the processor's, where [Options].ThreadTime is set.
	Took, CPU time.Duration
}

// calibrationGain is the part of the decoding time that a calibrated prompt
// saves: what 9 % fewer steps come to in exact replay of SmolLM2's answers, with
// a database of earlier ones (3.21 → 3.52 tokens per step). Summaries save more
// (2.50 → 2.85), paraphrases of one sentence nothing (2.16 → 2.17).
const calibrationGain = 0.09

// habits are means over earlier requests, the later ones counting more.
type habits struct {
	// outputs is the length of an output in tokens, perToken the time of one.
	outputs  float64
	perToken time.Duration
	// accepted is how many tokens a pass gives.
	accepted float64
	// headRow is the time of one row of the head among many.
	headRow time.Duration
}

// answered notes an output, and how many of its tokens a pass gave.
func (h *habits) answered(tokens int, accepted float64, decode time.Duration) {
	if tokens < 2 || decode <= 0 {
		return
	}
	per := decode / time.Duration(tokens-1) // the prompt's pass gave the first
	if h.perToken == 0 {
		h.outputs, h.perToken, h.accepted = float64(tokens), per, accepted
		return
	}
	h.accepted += learn * (accepted - h.accepted)
	h.outputs += learn * (float64(tokens) - h.outputs)
	h.perToken += time.Duration(learn * float64(per-h.perToken))
}

// head notes a run of the head's graph of a width.
func (h *habits) head(rows int, took time.Duration) {
	if rows <= 1 {
		return // a row alone costs the reading of the whole matrix
	}
	per := took / time.Duration(rows)
	if h.headRow == 0 {
		h.headRow = per
	}
	h.headRow += time.Duration(learn * float64(per-h.headRow))
}

// calibration predicts what calibrating a prompt costs and gains, of which rows
// tokens are computed and that at most limit are to follow (negative: no limit).
func (h *habits) calibration(rows, limit int) (cost, gain time.Duration) {
	if h.perToken == 0 || h.headRow == 0 {
		return 0, 0
	}
	outputs := h.outputs
	if limit >= 0 {
		outputs = min(outputs, float64(limit))
	}
	return time.Duration(rows-1) * h.headRow, time.Duration(calibrationGain * outputs * float64(h.perToken))
}

// calibrates decides whether the head runs for all of a prompt's tokens: if the
// options say so, if it is predicted to pay, or to learn what it costs.
func (g *generation) calibrates(rows int) bool {
	e := g.engine
	if !e.options.Draft.Calibration {
		return false
	}
	if e.options.AlwaysCalibrate {
		return true
	}
	e.habitsMu.Lock()
	cost, gain := e.habits.calibration(rows, g.request.MaxTokens)
	e.habitsMu.Unlock()
	g.report.Calibration.Cost, g.report.Calibration.Gain = cost, gain
	return cost <= gain
}

// observations are what the model thought likely behind tokens in a row.
type observations struct {
	position      int
	ends          []int // of each token's part of the rest
	tokens        []int32
	probabilities []float32
}

// observePrompt shows the drafter what the model thought likely behind the next
// tokens of the prompt. The drafter looks at it on the CPU while the device
// computes what follows; whoever needs the drafter waits with settled.
func (g *generation) observePrompt(v verdict) {
	g.settled()
	o := observations{position: g.prompted}
	for row := range v.share.n {
		g.read(v, row)
		o.tokens = append(o.tokens, g.top.Tokens...)
		o.probabilities = append(o.probabilities, g.top.Probabilities...)
		o.ends = append(o.ends, len(o.tokens))
	}
	g.prompted += v.share.n
	g.report.Calibration.Rows += v.share.n
	took := make(chan spent, 1)
	g.observing = took
	go func() {
		w, from := g.engine.watch(), 0
		for i, end := range o.ends {
			g.drafter.Observe(o.position+i, o.tokens[from:end], o.probabilities[from:end])
			from = end
		}
		took <- w.stop()
	}()
}

// settled waits until the drafter has seen what it was to be shown.
func (g *generation) settled() {
	if g.observing == nil {
		return
	}
	took := <-g.observing
	g.report.Calibration.Took += took.wall
	g.report.Calibration.CPU += took.cpu
	g.worked(graphswap.Calibrate, took)
	g.observing = nil
}
