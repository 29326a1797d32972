package paper

import (
	"context"
	"errors"
	"slices"

	"github.com/sdnpu/sdnpu/adapters/lab/bench"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/engine/draft/baseline"
	"github.com/sdnpu/sdnpu/spec"
	"github.com/sdnpu/sdnpu/spec/replay"
)

// verifyRows is the width of a verification graph: the row of the last token and the drafts.
const verifyRows = 32

// errNoTexts is returned if an item replays texts and there are none.
var errNoTexts = errors.New("there are no recorded texts of this task: name a file with --traces, or execute the run npu with -o")

// textsOf returns the recorded texts of a task.
func (d *Data) textsOf(task string) ([]replay.Trace, error) {
	list := slices.DeleteFunc(slices.Clone(d.Texts), func(t replay.Trace) bool { return t.Task != task })
	if len(list) == 0 {
		return nil, errNoTexts
	}
	return list, nil
}

// pass describes the drafts of one replayed verification pass.
type pass struct {
	drafted, accepted int
	rejected          []int32 // rejected holds the rest of the draft after its accepted tokens
	at                int     // at is the index of the output token that took the place of the first rejected one
}

// recorder is a drafter that records its passes. Its inner drafter proposes chains.
type recorder struct {
	replay.Drafter
	chain  []int32
	passes []pass
	output int
	asked  bool
}

// Begin implements [replay.Drafter].
func (r *recorder) Begin(prompt []int32) {
	r.output, r.passes, r.asked = 0, nil, false
	r.Drafter.Begin(prompt)
}

// Propose implements [replay.Drafter].
func (r *recorder) Propose(t *spec.Tree, rows int) {
	r.Drafter.Propose(t, rows)
	r.chain, r.asked = append(r.chain[:0], t.Tokens...), true
}

// Commit implements [replay.Drafter].
func (r *recorder) Commit(tokens []int32) {
	if r.asked {
		p := pass{drafted: len(r.chain)}
		for p.accepted < min(len(r.chain), len(tokens)-1) && r.chain[p.accepted] == tokens[p.accepted] {
			p.accepted++
		}
		p.at, p.rejected = r.output+p.accepted, slices.Clone(r.chain[p.accepted:])
		r.passes = append(r.passes, p)
	}
	r.output, r.asked = r.output+len(tokens), false
	r.Drafter.Commit(tokens)
}

// record replays texts with a drafter that proposes chains, and calls each with the passes of
// each text.
func record(ctx context.Context, texts []replay.Trace, mode draft.Mode, rows int, each func(replay.Trace, []pass)) error {
	r := &recorder{Drafter: draft.New(mode, nil, &draft.Experience{})}
	for _, t := range texts {
		if err := ctx.Err(); err != nil {
			return err
		}
		var c replay.Count
		replay.Run(r, t, rows-1, func() int64 { return 0 }, &c)
		each(t, r.passes)
	}
	return nil
}

// saidWithin is the number of tokens within which a rejected token counts as said.
const saidWithin = 8

// class is the fate of a rejected draft token.
type class int

const (
	redundant class = iota // redundant tokens are not said soon
	missing                // missing tokens are said later than drafted: the draft lacked tokens before them
	synonym                // synonym tokens are said at their place, after an earlier token was replaced
)

// classify returns the class of each rejected token of a pass.
func classify(p pass, output []int32) (list []class) {
	for i, token := range p.rejected {
		place := p.at + i
		switch {
		case place < len(output) && output[place] == token:
			list = append(list, synonym)
		case place+1 < len(output) && slices.Contains(output[place+1:min(place+1+saidWithin, len(output))], token):
			list = append(list, missing)
		default:
			list = append(list, redundant)
		}
	}
	return list
}

// rejections makes Table 2.
func rejections(ctx context.Context, t *Table, d *Data, l library) error {
	texts, err := d.textsOf(summarization)
	if err != nil {
		return err
	}
	var counts [3]float64
	total := 0.0
	err = record(ctx, texts, baseline.SuffixAutomaton, verifyRows, func(text replay.Trace, passes []pass) {
		for _, p := range passes {
			for _, c := range classify(p, text.Output) {
				counts[c]++
				total++
			}
		}
	})
	if err != nil {
		return err
	}
	share := func(n float64) Range { return exactly(100 * n / max(1, total)) }
	published := func(system string) Range { return l.value("Table 2", "", "summary", system, "rejection_class_share") }
	t.add(Row{What: "missing: said later than drafted", Unit: "%", Published: published("missing"), Ours: share(counts[missing]), Mark: Counted})
	t.add(Row{What: "synonym: said at its place, an earlier token was replaced", Unit: "%", Published: published("synonym"), Ours: share(counts[synonym]), Mark: Counted})
	t.add(Row{What: "redundant: not said soon", Unit: "%", Published: published("redundant"), Ours: share(counts[redundant]), Mark: Counted})
	t.add(Row{
		What: "reusable: missing or synonym", Unit: "%", Published: l.value("Table 2", "", "summary", "missing+synonym", "reusable_rejected_share"),
		Ours: share(counts[missing] + counts[synonym]), Mark: Counted,
	})
	t.note("Ours: the %.0f rejected tokens of SAM's drafts of at most %d tokens in %d summaries of %s. The paper annotated one summary by hand. "+
		"Frequent tokens are said again by chance, so our share of missing tokens is an upper bound.", total, verifyRows-1, len(texts), d.TextsOf)
	return nil
}

// fig5 compares the lengths of drafts.
func fig5(ctx context.Context, t *Table, d *Data, l library) error {
	texts, err := d.textsOf(summarization)
	if err != nil {
		return err
	}
	for _, form := range []struct {
		name string
		mode draft.Mode
	}{
		{"prompt lookup, at most 10 tokens", baseline.PromptLookup},
		{"SAM, at most 63 tokens", baseline.SuffixAutomaton},
	} {
		var steps, drafted8, drafted32, accepted8, accepted32 float64
		err := record(ctx, texts, form.mode, 64, func(_ replay.Trace, passes []pass) {
			for _, p := range passes {
				steps++
				for _, c := range []struct {
					n, below int
					sum      *float64
				}{{p.drafted, 8, &drafted8}, {p.drafted, 32, &drafted32}, {p.accepted, 8, &accepted8}, {p.accepted, 32, &accepted32}} {
					if c.n < c.below {
						*c.sum++
					}
				}
			}
		})
		if err != nil {
			return err
		}
		below8, below32 := l.value("Fig. 5", "", "", "pld", "share_of_drafts_shorter_than_8"), l.value("Fig. 5", "", "", "pld", "share_of_drafts_shorter_than_32")
		for _, c := range []struct {
			what      string
			published Range
			n         float64
		}{{"drafted less than 8", below8, drafted8}, {"drafted less than 32", below32, drafted32}, {"accepted less than 8", below8, accepted8}, {"accepted less than 32", below32, accepted32}} {
			t.add(Row{What: form.name + ": " + c.what, Unit: "%", Published: c.published, Bound: "≥", Ours: exactly(100 * c.n / max(1, steps)), Mark: Counted})
		}
	}
	t.note("The paper does not say whether it counts drafted or accepted tokens. Ours: all passes of %d summaries of %s, those without a draft included.", len(texts), d.TextsOf)
	return nil
}

// fig6b compares how much of a verification pass is useful. Accepted drafts are valid,
// rejected drafts are wasted, and all other rows of 32 are under-used, also that of the last
// token.
func fig6b(ctx context.Context, t *Table, d *Data, l library) error {
	texts, err := d.textsOf(summarization)
	if err != nil {
		return err
	}
	for _, form := range []struct {
		name      string
		mode      draft.Mode
		published bool
	}{{"prompt lookup", baseline.PromptLookup, true}, {"ours without recycling", draft.Mode{Automaton: true, Calibration: true, Database: true}, false}} {
		r, err := bench.RunReplay(ctx, texts, bench.ReplayOptions{Mode: form.mode, Rows: verifyRows, Online: true})
		if err != nil {
			return err
		}
		valid, wasted := 100*(r.All.MAT-1)/verifyRows, 100*r.All.Waste/verifyRows
		for _, c := range []struct {
			what, metric string
			ours         float64
		}{{"valid", "npu_cycles_valid", valid}, {"wasted", "npu_cycles_wasted", wasted}, {"under-used", "npu_cycles_underutilised", 100 - valid - wasted}} {
			row := Row{What: form.name + ": " + c.what, Unit: "%", Ours: exactly(c.ours), Mark: Counted}
			if form.published {
				row.Published = l.value("Fig. 6b", "", "summary", "existing SD", c.metric)
			}
			t.add(row)
		}
	}
	t.note("Ours: %d summaries of %s. The paper's text also says that 70.5 %% of wasted and under-used rows became valid. "+
		"That needs more than 22 accepted drafts per pass of 32 rows and contradicts its own 4.21 tokens per pass, so it is not compared.", len(texts), d.TextsOf)
	return nil
}
