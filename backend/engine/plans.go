package engine

import (
	"fmt"

	"github.com/sdnpu/sdnpu/graphswap"
)

// promptShape is what a plan is made for.
type promptShape struct {
	tokens, cached int // to be computed, and before them
	allLogits      bool
	before         []graphswap.Graph // resident, by block
	rows           []int
	// output and accept are what is expected of the answer: its tokens, and how
	// many of them a pass gives. Zero where nothing is known.
	output, accept float64
	// alone tells that no other request waits for the device.
	alone bool
}

// foretold is a plan with what it was made for and what it is to take.
type foretold struct {
	plan    *graphswap.Plan
	problem *graphswap.Problem
	line    *graphswap.Timeline
	// beside tells that chunks go one by one through all blocks because other
	// requests are under way.
	beside bool
}

// problem applies what graphs take to a prompt.
func (e *Engine) problem(s promptShape) (*graphswap.Problem, error) {
	return e.costModel().Problem(graphswap.Request{
		Blocks: e.options.Blocks, Rows1: e.options.Rows[0], Rows2: e.options.Rows[1],
		Prompt: s.tokens, Cached: s.cached, AllLogits: s.allLogits, Heads: e.head.rows, Before: s.before,
	})
}

func (e *Engine) costModel() *graphswap.Cost {
	c := e.config
	return e.costs.model(e.dev.Capabilities().Name, modelSizes{c.Layers, c.Hidden, c.Vocab})
}

// makePlan makes the plan that the options name. Where others wait, chunks go
// through all blocks one by one, so that rows of others can go with them.
func (e *Engine) makePlan(s promptShape) (*foretold, error) {
	name, asked, refused := e.options.planName()
	if name == PlanAuto {
		return e.choosePlan(s)
	}
	problem, err := e.problem(s)
	if err != nil {
		return nil, err
	}
	inOrder, beside := withOthers[name]
	if beside = beside && !s.alone; beside {
		name = inOrder
	}
	if graphswap.Switches(name) && !refused && (asked || !e.costs.crowded()) {
		f, err := foretell(problem, name, true, beside)
		if err == nil && (asked || f.line.Check(problem) == nil) {
			return f, nil
		}
		if asked {
			return nil, err
		}
	}
	return foretell(problem, name, false, beside)
}

// withOthers are the plans that take their place while other requests are under way.
var withOthers = map[string]string{
	graphswap.PlanDescent: graphswap.PlanDescentInOrder,
	graphswap.PlanExact:   graphswap.PlanExactInOrder,
}

func foretell(problem *graphswap.Problem, name string, spare, beside bool) (*foretold, error) {
	plan, err := problem.Make(name, spare)
	if err != nil {
		return nil, err
	}
	line, err := graphswap.Simulate(plan, problem)
	if err != nil {
		return nil, fmt.Errorf("engine: plan %s: %w", name, err)
	}
	return &foretold{plan, problem, line, beside}, nil
}
