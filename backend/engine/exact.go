package engine

import (
	"fmt"

	"github.com/sdnpu/sdnpu/graphswap"
)

// Lossless tells what drafts, and what else decides on a pass's width, can
// change of a text.
type Lossless struct {
	// Exact is [Options].Exact, and Width the rows of the graphs that computed
	// every token behind the prompt; 0 where that was free.
	Exact bool
	Width int
	// Flips is how often another choice would have come out another way, at none of
	// no positions where each pass has one row; nil where nobody has measured.
	Flips *Flips
	// MeasuredOn is the plan that MeasureFlips can compare the same widths on, ""
	// where that of an empty plan can: those that exchange graphs cannot.
	MeasuredOn string
}

func (e *Engine) lossless() Lossless {
	l := Lossless{Exact: e.options.Exact, Flips: e.options.Flips}
	if l.Exact {
		l.Width = e.options.VerifyRows()
	}
	switch start, used := e.options.start(); {
	case start != used:
		l.MeasuredOn = graphswap.PlanBoth
	case used != graphswap.Both:
		l.MeasuredOn = e.options.Plan
	}
	if _, compared := e.options.FlipWidths(); len(compared) == 0 {
		l.Flips = &Flips{}
	}
	return l
}

// VerifyRows is the width that computes each token behind a prompt where the
// width is to be exact. Rows are resolved.
func (o Options) VerifyRows() int {
	if _, used := o.start(); used == graphswap.G1 {
		return o.Rows[0]
	}
	return o.Rows[len(o.Rows)-1]
}

// draftRows is the most that one pass has of drafts and the tokens before them.
func (o Options) draftRows() int {
	if o.Exact {
		return min(o.partRows(), o.VerifyRows())
	}
	return o.partRows()
}

// CheckExact reports whether [Options].Exact can stand beside a plan on some
// device. Auto then keeps every graph; a library that exchanges the graphs of the
// lazy plan itself has them all.
func CheckExact(plan string) error {
	name, _, _ := Options{Plan: plan}.planName()
	if name == "" || name == PlanAuto || plan == graphswap.PlanLazy || !graphswap.Switches(name) {
		return nil
	}
	return fmt.Errorf("plan %s exchanges graphs, so tokens have no exact width: take %s, %s or %s, or give up the exact width",
		plan, PlanAuto, graphswap.PlanBoth, graphswap.PlanShared)
}

// checkExact is for options whose plan is decided.
func (o Options) checkExact() error {
	if start, used := o.start(); !o.Exact || start == used {
		return nil
	}
	return fmt.Errorf("engine: %w: plan %s exchanges graphs, so tokens have no exact width: take %s or %s, or give up the exact width",
		ErrOptions, o.Plan, graphswap.PlanBoth, graphswap.PlanShared)
}

// behindPrompt tells that the share is a token that was drawn, and not one of
// many whose logits are the prompt's.
func (s share) behindPrompt() bool {
	return s.job.report.OutputTokens > 0 && len(s.job.tokens) == 1
}

// takeAlike is take for passes whose widths are exact: those of the first job's
// prompt alone, or one row of each job that is behind its prompt, up to most.
func (l *line) takeAlike(chunk func(rows int) int, most int) (shares []share) {
	l.change(func() {
		if first := (share{job: l.jobs[0], n: 1}); !first.behindPrompt() {
			first.n = chunk(len(first.job.tokens))
			shares = append(shares, first)
			l.jobs = append(l.jobs[:0], l.jobs[1:]...)
			return
		}
		rest := l.jobs[:0]
		for _, j := range l.jobs {
			s := share{job: j, n: 1}
			if len(shares) < most && s.behindPrompt() {
				shares = append(shares, s)
			} else {
				rest = append(rest, j)
			}
		}
		l.jobs = rest
	})
	return shares
}
