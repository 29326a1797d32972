package outoforder

import (
	"fmt"
	"slices"
	"time"

	"github.com/sdnpu/sdnpu/graphswap"
)

// Stage is one subgraph of a model. Each chunk of a prompt runs each stage once.
type Stage struct {
	Name  string
	Layer int            // Layer is the number of the stage's layer, from 0
	Lane  graphswap.Lane // Lane is graphswap.NPU or graphswap.CPU
	// After lists the stages, by index and in ascending order, whose results the stage
	// needs. The stages in After come before the stage itself.
	After []int
	// Past is true if the stage also needs the results that the stages in After have for
	// all earlier chunks. For example, attention needs the keys and values of all earlier
	// chunks.
	Past bool
	// Ordered is true if the stage also needs its own result for the chunk before: for example, a
	// stage that computes keys and values as well as attention needs those of all earlier chunks.
	Ordered bool
	// Times holds the time that the stage takes in each chunk. A time of zero is allowed,
	// for stages that some chunks do not need.
	Times []time.Duration
}

// Repeat returns the stages of a model whose layers are all equal. The parameter layer
// holds the stages of one layer. A stage with an empty field After needs the last stages of
// the layer before it. A stage is one of the last stages of its layer if no stage of the
// layer needs its results.
func Repeat(layer []Stage, layers int) []Stage {
	last := ends(layer)
	stages := make([]Stage, 0, len(layer)*layers)
	for l := range layers {
		shift := l * len(layer)
		for _, s := range layer {
			after, by := s.After, shift
			if len(after) == 0 && l > 0 {
				after, by = last, shift-len(layer)
			}
			s.Layer, s.After = l, slices.Clone(after)
			for i := range s.After {
				s.After[i] += by
			}
			stages = append(stages, s)
		}
	}
	return stages
}

// ends returns the indices of the stages whose results no other stage needs.
func ends(stages []Stage) (last []int) {
	needed := make([]bool, len(stages))
	for _, s := range stages {
		for _, a := range s.After {
			if a >= 0 && a < len(stages) { // the loop ignores invalid numbers of stages, which New rejects later
				needed[a] = true
			}
		}
	}
	for i := range stages {
		if !needed[i] {
			last = append(last, i)
		}
	}
	return last
}

// check returns an error if no schedule can contain the stage as the stage with number
// `index`.
func (s *Stage) check(index, chunks int) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("outoforder: %w: stage %d (%.40q): %s", ErrProblem, index, s.Name, fmt.Sprintf(format, args...))
	}
	if s.Lane != graphswap.NPU && s.Lane != graphswap.CPU {
		return fail("lane %v: want NPU or CPU", s.Lane)
	}
	if s.Layer < 0 || s.Layer >= maxTasks {
		return fail("layer %d: want 0..%d", s.Layer, maxTasks-1)
	}
	if len(s.Times) != chunks {
		return fail("it has times for %d chunks, and stage 0 for %d: want equal numbers", len(s.Times), chunks)
	}
	for c, d := range s.Times {
		if d < 0 || d > maxTime {
			return fail("it takes %v in chunk %d: want 0..%v", d, c, maxTime)
		}
	}
	for i, a := range s.After {
		if a < 0 || a >= index {
			return fail("it needs the result of stage %d: want a stage before it", a)
		}
		if i > 0 && a <= s.After[i-1] {
			return fail("it needs the results of stages %d and %d: want ascending numbers", s.After[i-1], a)
		}
	}
	return nil
}
