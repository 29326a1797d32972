// Package replay scores a drafter against recorded texts without running the
// model.
//
// Under greedy decoding the text is a function of the prompt: drafts change the
// number of steps, never the tokens. So the accept length of a drafter that
// looks at tokens, or at recorded probabilities, follows exactly. What cannot be
// had this way is draft extension, which needs the model's choices after wrong
// tokens.
package replay

import "github.com/sdnpu/sdnpu/spec"

// Drafter is what is scored.
type Drafter interface {
	// Begin starts a request.
	Begin(prompt []int32)
	// Observe tells what the model thought likely after the token at a position
	// of the text, as soon as the model has run on that token.
	Observe(position int, tokens []int32, probabilities []float32)
	// Propose fills an empty tree with at most rows rows.
	Propose(tree *spec.Tree, rows int)
	// Commit appends what the model said.
	Commit(tokens []int32)
	// End finishes the request.
	End(well bool)
}

// Trace is one request. The output holds an end token if the model said one.
type Trace struct {
	Task           string
	Prompt, Output []int32
	// Top holds, per position of prompt and output, what the model thought
	// likely to come next; nil where it was not recorded.
	Top []Top
}

// Top are a position's likeliest next tokens, the likeliest first.
type Top struct {
	Tokens        []int32
	Probabilities []float32
}

// Count sums steps over requests.
type Count struct {
	Requests, Steps, Committed, Drafted, Accepted, Empty int
	// FreshSteps and FreshCommitted count steps that end before the text repeats
	// itself.
	FreshSteps, FreshCommitted int
	// Propose and Commit are the times of each step, in the clock's unit.
	Propose, Commit []int64
}

// Add adds another count.
func (c *Count) Add(o *Count) {
	c.Requests += o.Requests
	c.Steps += o.Steps
	c.Committed += o.Committed
	c.Drafted += o.Drafted
	c.Accepted += o.Accepted
	c.Empty += o.Empty
	c.FreshSteps += o.FreshSteps
	c.FreshCommitted += o.FreshCommitted
	c.Propose = append(c.Propose, o.Propose...)
	c.Commit = append(c.Commit, o.Commit...)
}

// Run replays one request and adds its steps to c. Trees have at most rows rows
// besides the one of the last committed token. The prefill gives the first
// token and counts as no step.
func Run(d Drafter, t Trace, rows int, clock func() int64, c *Count) {
	c.Requests++
	d.Begin(t.Prompt)
	t.observe(d, 0, len(t.Prompt))
	if len(t.Output) > 0 {
		d.Commit(t.Output[:1])
	}
	var tree spec.Tree
	loop := LoopAt(t.Output)
	for position := 1; position < len(t.Output); {
		tree.Reset()
		start := clock()
		d.Propose(&tree, rows)
		proposed := clock()
		accepted := accept(&tree, t.Output[position:])
		said := t.Output[position : position+accepted+1]
		from := len(t.Prompt) + position - 1
		verified := clock()
		d.Commit(said)
		t.observe(d, from, from+len(said))
		c.Commit = append(c.Commit, clock()-verified)
		c.Propose = append(c.Propose, proposed-start)
		position += len(said)
		c.Steps++
		c.Committed += len(said)
		if position <= loop {
			c.FreshSteps++
			c.FreshCommitted += len(said)
		}
		c.Accepted += accepted
		c.Drafted += tree.Len()
		if tree.Len() == 0 {
			c.Empty++
		}
	}
	d.End(true)
}

// loopLength is the number of tokens that, once said again, are a loop.
const loopLength = 8

// LoopAt is how many tokens of an output come before it completes, for the first
// time, eight tokens in a row that it has said already. Small models fall into
// loops, which any draft copies.
func LoopAt(output []int32) int {
	seen := make(map[[loopLength]int32]bool)
	for i := loopLength; i <= len(output); i++ {
		run := [loopLength]int32(output[i-loopLength : i])
		if seen[run] {
			return i - 1
		}
		seen[run] = true
	}
	return len(output)
}

// observe tells what the rows at the positions [from,to) gave.
func (t Trace) observe(d Drafter, from, to int) {
	for i := from; i < min(to, len(t.Top)); i++ {
		d.Observe(i, t.Top[i].Tokens, t.Top[i].Probabilities)
	}
}

// accept counts the rows on the path of what the model said. The last token is
// always the model's own.
func accept(tree *spec.Tree, said []int32) int {
	node := spec.None
	for i := range len(said) - 1 {
		if node = tree.Child(node, said[i]); node == spec.None {
			return i
		}
	}
	return len(said) - 1
}
