package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Plans are the values of [Options].Plan beside the empty one. The first four
// keep everything that they use in the device; the others exchange the wide
// graphs, which prompts are computed on, for the narrow ones.
var Plans = []string{"both_resident", "shared_pair", "g1_only", "g2_only", "sync"}

// switches tells that blocks have one graph in the device at a time, or two
// where there is a spare slot.
func (o Options) switches() bool { return slices.Index(Plans, o.Plan) > 3 }

// apart tells that every graph is an image of its own.
func (o Options) apart() bool { return o.Plan == "both_resident" || o.switches() }

// residencyName is the plan, or for an empty one that which it comes to.
func (e *Engine) residencyName() string {
	switch {
	case e.options.Plan != "":
		return e.options.Plan
	case e.dev.Capabilities().SharesConstants:
		return "shared_pair"
	}
	return "both_resident"
}

// parts is into how many parts the narrow graphs cut a pass of the widest rows,
// and partRows the rows of one; without switching no pass is cut.
func (o Options) parts() int { return o.Rows[0] / o.partRows() }

func (o Options) partRows() int {
	if o.switches() {
		return o.Rows[len(o.Rows)-1]
	}
	return o.Rows[0]
}

// resolvePlan fills in the widths that a plan leaves open and takes those away
// that it never uses.
func (o Options) resolvePlan() Options {
	if o.Plan == "" {
		return o
	}
	if len(o.Rows) == 0 {
		o.Rows = []int{128, 32}
	}
	switch o.Plan {
	case "g1_only":
		o.Rows = o.Rows[:1]
	case "g2_only":
		o.Rows = o.Rows[len(o.Rows)-1:]
	}
	return o
}

func (o Options) checkPlan(rowBytes int) error {
	switch {
	case o.Plan != "" && !slices.Contains(Plans, o.Plan):
		return fmt.Errorf("engine: %w: plan %q: one of %s wanted", ErrOptions, o.Plan, strings.Join(Plans, ", "))
	case o.switches() && (len(o.Rows) != 2 || o.Rows[0]%o.Rows[1] != 0):
		return fmt.Errorf("engine: %w: plan %s with widths %v: two wanted, the first a multiple of the second", ErrOptions, o.Plan, o.Rows)
	case o.switches() && o.Rows[1]*rowBytes%alignment != 0:
		return fmt.Errorf("engine: %w: plan %s: %d rows of %d bytes are no multiple of %d", ErrOptions, o.Plan, o.Rows[1], rowBytes, alignment)
	}
	return nil
}

// checkSharing refuses a pair that a device would hold twice.
func (o Options) checkSharing(c backend.Capabilities) error {
	if o.Plan == "shared_pair" && !c.SharesConstants {
		return fmt.Errorf("engine: %w: plan shared_pair on %s, which stores the weights of each graph: both_resident does that knowingly", ErrOptions, c.Name)
	}
	return nil
}

// syncPlan computes a prompt on wide graphs, loading those that are missing
// before their first chunk, and loads the narrow ones after the last.
func (o Options) syncPlan(s promptShape) (*graphswap.Plan, error) {
	p := &graphswap.Plan{
		Name: o.Plan, Reason: "graphs are exchanged between the prompt and its answer",
		Blocks: o.Blocks, Rows1: o.Rows[0], Rows2: o.Rows[1], Before: s.before, Window: 1,
	}
	for at := 0; at < s.tokens; at += p.Rows1 {
		for b := range p.Blocks {
			p.Steps = append(p.Steps, graphswap.Step{Chunk: len(p.Chunks), Block: b, Graph: graphswap.G1})
		}
		p.Chunks = append(p.Chunks, min(p.Rows1, s.tokens-at))
	}
	for b, g := range s.before {
		p.First, p.After = append(p.First, len(p.Chunks)), append(p.After, graphswap.G2)
		if g&graphswap.G1 == 0 {
			p.Loads = append(p.Loads, graphswap.Load{Block: b, Graph: graphswap.G1, After: -1})
		}
	}
	for b := range p.Blocks {
		p.Loads = append(p.Loads, graphswap.Load{Block: b, Graph: graphswap.G2, After: len(p.Steps) - 1})
	}
	return p, nil
}
