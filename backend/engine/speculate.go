package engine

import (
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/spec"
)

// startDrafts begins to draft for the request, if that is asked for.
func (g *generation) startDrafts() {
	mode := g.engine.options.Draft
	g.report.Draft = mode.String()
	if mode == (draft.Mode{}) {
		return
	}
	defer g.drafting(g.engine.watch())
	g.drafter, g.tree = draft.New(mode, g.engine.options.Database, &g.engine.experience), &spec.Tree{}
	if g.request.Mask != nil {
		g.drafter.Restrict(g.request.Mask.Allowed)
	}
	g.drafter.Begin(g.request.Prompt)
	g.prompted = g.report.CachedTokens
	g.job.everyRow = g.calibrates(len(g.request.Prompt) - g.prompted)
}

func (g *generation) drafting(w watch) {
	took := w.stop()
	g.report.Drafting += took.wall
	g.report.DraftingCPU += took.cpu
	g.worked(graphswap.Draft, took)
}

// propose gives the job drafts that follow a text of length tokens and the one
// to be computed.
func (g *generation) propose(length int) {
	if g.job.drafts = nil; g.drafter == nil {
		return
	}
	g.settled()
	defer g.drafting(g.engine.watch())
	rows := g.engine.options.draftRows() - 1
	if rows > maxDrafts {
		rows = maxDrafts
	}
	g.tree.Reset()
	g.drafter.Propose(g.tree, rows)
	g.job.drafts = g.tree.Head(fitting(g.tree, g.engine.family.Load().context-length-1, g.engine.config.Vocab))
}

// maxDrafts is the most that is drafted for one token: a tree of it fills the
// verification graph of 32 rows, and what lies behind is hardly ever right.
const maxDrafts = 31

// fitting is how many rows of a tree come before the first one that is deeper
// than room, or of a token that the model has no embedding for: a database may
// hold anything.
func fitting(t *spec.Tree, room, vocab int) int {
	depths := make([]int, t.Len())
	for i, parent := range t.Parents {
		if depths[i] = 1; parent != spec.None {
			depths[i] += depths[parent]
		}
		if depths[i] > room || int(t.Tokens[i]) >= vocab || t.Tokens[i] < 0 {
			return i
		}
	}
	return t.Len()
}

// observe shows the drafter what the model thought likely behind a token that is
// certain and stands at a position of the drafter's text.
func (g *generation) observe(position int, v verdict, row int) {
	g.read(v, row)
	g.drafter.Observe(position, g.top.Tokens, g.top.Probabilities)
}

// read takes the likeliest tokens behind a row.
func (g *generation) read(v verdict, row int) {
	if top := v.tops[row]; len(top.IDs) > 0 {
		g.top.ReadTop(top.IDs, top.Logits, top.Share)
	} else {
		g.top.Read(v.logits[row])
	}
}

// learn tells the drafter what came of a pass: the accepted drafts and the
// tokens that were said.
func (g *generation) learn(v verdict, path, said []int32) {
	if g.drafter == nil {
		return
	}
	g.settled()
	defer g.drafting(g.engine.watch())
	if v.share.last() {
		g.drafter.Commit(said)
	}
	mode := g.engine.options.Draft
	last := g.drafter.Len() - len(said) - 1
	if mode.Rejected() && v.share.drafts > 0 {
		g.observeRejected(last, v, path)
	}
	if !mode.Calibration {
		return
	}
	if g.job.everyRow { // the prompt's
		g.observePrompt(v)
		return
	}
	g.observe(last, v, v.share.n-1)
	for i, draft := range path {
		g.observe(last+1+i, v, v.row(draft))
	}
}

// observeRejected shows the drafter what the model thought likely behind drafts
// that were not accepted: texts often come to them a little later.
func (g *generation) observeRejected(last int, v verdict, path []int32) {
	for row := range int32(v.share.drafts) {
		if len(path) > 0 && path[0] == row {
			path = path[1:]
			continue
		}
		g.read(v, v.row(row))
		g.drafter.ObserveRejected(last, g.job.drafts, row, g.top.Tokens, g.top.Probabilities)
	}
}

// endDrafts remembers an output that came to its end.
func (g *generation) endDrafts(well bool) {
	if g.drafter == nil {
		return
	}
	g.settled()
	g.drafter.End(well)
}
