package engine

import (
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
)

// Calibration describes what drafts learned from the logits of a prompt's rows.
type Calibration struct {
	// Rows counts the prompt rows whose logits were read: all computed ones, or none.
	Rows int
	// Cost is the predicted time of the head for these rows, and Gain the decoding time
	// that it saves. They are 0 if nothing was measured yet or the options decide.
	Cost, Gain time.Duration
	// Took is the time that learning took while the device computed, CPU its processor
	// time, if the [Policy] measures it.
	Took, CPU time.Duration
}

// calibrates asks the policy whether the head runs for all of the prompt's tokens.
func (g *generation) calibrates(rows int) bool {
	c := g.engine.policy.CalibratePrompt(rows, g.request.MaxTokens)
	g.report.Calibration.Cost, g.report.Calibration.Gain = c.Cost, c.Gain
	return c.Calibrate
}

// observations are the likely tokens after consecutive tokens of the prompt, the first
// of which has a position.
type observations struct {
	position      int
	ends          []int // for each token, the end of its part of the other slices
	tokens        []int32
	probabilities []float32
}

// observePrompt shows the drafter the likely tokens after the next tokens of the
// prompt. The drafter learns them on the CPU while the device computes the next pass;
// waitForDrafter waits for it.
func (g *generation) observePrompt(o *passOutput) {
	g.waitForDrafter()
	seen := observations{position: g.prompted}
	for row := range o.rows.n {
		g.read(o, row)
		seen.tokens = append(seen.tokens, g.top.Tokens...)
		seen.probabilities = append(seen.probabilities, g.top.Probabilities...)
		seen.ends = append(seen.ends, len(seen.tokens))
	}
	g.prompted += o.rows.n
	g.report.Calibration.Rows += o.rows.n
	took := make(chan Elapsed, 1)
	g.observing = took
	go func() {
		stop, from := g.engine.policy.Stopwatch(), 0
		for i, end := range seen.ends {
			g.drafter.Observe(seen.position+i, seen.tokens[from:end], seen.probabilities[from:end])
			from = end
		}
		took <- stop()
	}()
}

// waitForDrafter waits until the drafter has learned the prompt's last pass.
func (g *generation) waitForDrafter() {
	if g.observing == nil {
		return
	}
	took := <-g.observing
	g.report.Calibration.Took += took.Wall
	g.report.Calibration.CPU += took.CPU
	g.recordCPU(graphswap.Calibrate, took)
	g.observing = nil
}
