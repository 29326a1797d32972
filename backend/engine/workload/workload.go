// Package workload keeps the statistics that the engine learns from its requests: how
// long answers are, how many tokens a pass yields, and what passes and the head take.
//
// The statistics are means in which later requests count more. They decide how the
// engine works, and never what it answers: whether a prompt is calibrated, which plan a
// prompt gets, and how many rows of drafts a pass has. Nothing is kept on disk.
//
// [Statistics] has one lock and may be used by any goroutine. [PassTimes] has none: the
// engine's device lock guards it. Every call takes constant time, or time in the number
// of graph widths.
package workload

import (
	"sync"
	"time"
)

// learningRate is the weight of the newest measurement.
const learningRate = 0.2

// calibrationGain is the part of the decoding time that a calibrated prompt saves. It
// is 9 % fewer steps in exact replay of SmolLM2's answers, with a database of earlier
// ones (3.21 → 3.52 tokens per step). Summaries save more (2.50 → 2.85), paraphrases of
// one sentence nothing (2.16 → 2.17).
const calibrationGain = 0.09

// Statistics are means over earlier requests. The zero value knows nothing.
type Statistics struct {
	mu sync.Mutex // guards all fields
	// outputs is the length of an answer in tokens, and perToken the time of one.
	outputs  float64
	perToken time.Duration
	// accepted is the number of tokens per pass.
	accepted float64
	// headRow is the time of one of several rows of the head.
	headRow time.Duration
}

// Answered records the tokens of an answer, the tokens per pass, and the time of decoding.
func (s *Statistics) Answered(tokens int, accepted float64, decode time.Duration) {
	if tokens < 2 || decode <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	per := decode / time.Duration(tokens-1) // the prompt's pass gave the first
	if s.perToken == 0 {
		s.outputs, s.perToken, s.accepted = float64(tokens), per, accepted
		return
	}
	s.accepted += learningRate * (accepted - s.accepted)
	s.outputs += learningRate * (float64(tokens) - s.outputs)
	s.perToken += time.Duration(learningRate * float64(per-s.perToken))
}

// HeadRan records a run of the head's graph of a width.
func (s *Statistics) HeadRan(rows int, took time.Duration) {
	if rows <= 1 {
		return // one row takes as long as reading the whole matrix
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	per := took / time.Duration(rows)
	if s.headRow == 0 {
		s.headRow = per
	}
	s.headRow += time.Duration(learningRate * float64(per-s.headRow))
}

// Expected returns the expected length of an answer and number of tokens per pass; zero
// if nothing is known.
func (s *Statistics) Expected() (output, accept float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outputs, s.accepted
}

// Calibration predicts what it costs to calibrate a prompt of rows computed tokens, and
// what decoding at most limit tokens then gains; a negative limit means none. Both are
// zero if nothing was measured.
func (s *Statistics) Calibration(rows, limit int) (cost, gain time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.perToken == 0 || s.headRow == 0 {
		return 0, 0
	}
	outputs := s.outputs
	if limit >= 0 {
		outputs = min(outputs, float64(limit))
	}
	return time.Duration(rows-1) * s.headRow, time.Duration(calibrationGain * outputs * float64(s.perToken))
}
