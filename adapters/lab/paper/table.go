package paper

import (
	"fmt"
	"math"
	"strings"
)

// Mark says how one of our values was found; the comment of the package explains the marks.
type Mark string

// The marks of values.
const (
	Counted   Mark = "counted"
	Executed  Mark = "executed"
	Simulated Mark = "simulated"
	Estimated Mark = "estimated"
	Measured  Mark = "measured"
)

// Range is a value or a range of values. If Known is not set, there is no value.
type Range struct {
	Known     bool    `json:"known"`
	Low, High float64 `json:",omitempty"`
}

// exactly returns the range of a single value.
func exactly(v float64) Range { return Range{true, v, v} }

// spread returns the range from the smallest to the largest of the values.
func spread(values []float64) Range {
	if len(values) == 0 {
		return Range{}
	}
	r := Range{true, math.Inf(1), math.Inf(-1)}
	for _, v := range values {
		r.Low, r.High = min(r.Low, v), max(r.High, v)
	}
	return r
}

// text formats the range with the given number of decimals.
func (r Range) text(decimals int) string {
	switch {
	case !r.Known:
		return "–"
	case r.Low == r.High:
		return fmt.Sprintf("%.*f", decimals, r.Low)
	}
	return fmt.Sprintf("%.*f–%.*f", decimals, r.Low, decimals, r.High)
}

// Row compares one value.
type Row struct {
	What      string `json:"what"`
	Unit      string `json:"unit"`
	Published Range  `json:"published"`
	// Bound is "≤" or "≥" if the published value is a bound, and otherwise empty.
	Bound string `json:"bound,omitempty"`
	Ours  Range  `json:"ours"`
	Mark  Mark   `json:"mark"`
	// Fitted is set if a device profile was fitted to the published value, so that our
	// value is no confirmation.
	Fitted bool   `json:"fitted,omitempty"`
	Note   string `json:"note,omitempty"`
}

// difference compares the two values: in points for percentages, in percent for other
// single values, and by position for ranges.
func (r *Row) difference() string {
	p, o := r.Published, r.Ours
	switch {
	case !p.Known || !o.Known:
		return "–"
	case r.Bound == "≤" && o.High <= p.High, r.Bound == "≥" && o.Low >= p.Low:
		return "holds"
	case p.Low == p.High && o.Low == o.High && r.Unit == "%":
		return fmt.Sprintf("%+.1f points", o.Low-p.Low)
	case p.Low == p.High && o.Low == o.High:
		return fmt.Sprintf("%+.0f %%", 100*(o.Low/p.Low-1))
	case o.Low >= p.Low && o.High <= p.High:
		return "inside"
	case o.High < p.Low:
		return "below"
	case o.Low > p.High:
		return "above"
	}
	return "partly inside"
}

// how returns the mark in words.
func (r *Row) how() string {
	text := string(r.Mark)
	if r.Fitted {
		text += "; fitted to this value, so no confirmation"
	}
	if r.Note != "" {
		text += "; " + r.Note
	}
	return text
}

// Table is a reproduced table or figure.
type Table struct {
	Item  string   `json:"item"`
	Title string   `json:"title"`
	Rows  []Row    `json:"rows"`
	Notes []string `json:"notes,omitempty"`
	// Repeats is set if times of this machine are part of the values, so that they vary
	// from run to run.
	Repeats bool `json:"varies_from_run_to_run,omitempty"`
}

func (t *Table) add(r Row) { t.Rows = append(t.Rows, r) }

func (t *Table) note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// Markdown returns the table as text, without the rows that were not executed.
func (t *Table) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s: %s\n\n| what | unit | published | ours | difference | how |\n|---|---|---|---|---|---|\n", t.Item, t.Title)
	for _, r := range t.Rows {
		if !r.Ours.Known {
			continue // the run of this row was not executed
		}
		decimals := 2
		if m := max(math.Abs(r.Published.High), math.Abs(r.Ours.High)); m >= 100 {
			decimals = 0
		} else if m >= 10 {
			decimals = 1
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.What, r.Unit, strings.TrimSpace(r.Bound+" "+r.Published.text(decimals)), r.Ours.text(decimals), r.difference(), r.how())
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "\n%s\n", n)
	}
	if t.Repeats {
		b.WriteString("\nThese figures include the processor time of drafting on this machine, so they vary from run to run.\n")
	}
	return b.String()
}
