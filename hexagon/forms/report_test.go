package forms

import (
	"fmt"
	"slices"
	"strings"
)

// line sums up all forms that have the same operator and types.
type line struct {
	row, types           string
	forms, ran, refusals int
	floats               int // floats is the number of forms that the float device ran
	worst                map[string]grade
	notes                []string
}

// report sums up trials in the order of the lines of testdata/forms.md.
func report(trials []*trial) []*line {
	var lines []*line
	places := map[string]*line{}
	for _, t := range trials {
		key := t.row + "/" + t.types
		l := places[key]
		if l == nil {
			l = &line{row: t.row, types: t.types, worst: map[string]grade{}}
			places[key] = l
			lines = append(lines, l)
		}
		l.forms++
		switch {
		case t.want == Outcome{}:
			l.ran++
		default:
			l.refusals++
			l.note(t.want.String())
		}
		if t.quirk != nil {
			l.note("vendor " + t.quirk.text())
		}
		if _, ok := t.grades["float"]; ok {
			l.floats++
		}
		for library, g := range t.grades {
			l.worst[library] = l.worst[library].worst(g)
		}
	}
	return lines
}

// text returns the text by which testdata/forms.md describes a known difference of the
// vendor's library.
func (q *quirk) text() string {
	if q.want == nil {
		return "is not compared: " + q.reason
	}
	return fmt.Sprintf("ends with %v: %s", *q.want, q.reason)
}

func (l *line) note(text string) {
	if !slices.Contains(l.notes, text) {
		l.notes = append(l.notes, text)
	}
}

// markdown formats the report as a table with totals.
func markdown(lines []*line, libraries []*library) string {
	var b strings.Builder
	var sum line
	fmt.Fprintln(&b, "| operator | types | forms | run | refused | float | emulator | vendor | remarks |")
	fmt.Fprintln(&b, "|---|---|---|---|---|---|---|---|---|")
	for _, l := range lines {
		sum.forms, sum.ran, sum.refusals = sum.forms+l.forms, sum.ran+l.ran, sum.refusals+l.refusals
		sum.floats += l.floats
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %s | %s | %s | %s |\n", l.row, l.types, l.forms, l.ran, l.refusals,
			l.error("float"), l.error("emulator"), l.error("vendor"), strings.Join(l.notes, "; "))
	}
	fmt.Fprintf(&b, "\n%d forms: %d run, %d are refused as expected; %d ran on the float device too. Libraries and their core APIs:",
		sum.forms, sum.ran, sum.refusals, sum.floats)
	for i, l := range libraries {
		fmt.Fprintf(&b, "%s %s %s", []string{"", ";"}[min(i, 1)], l.name, l.version)
	}
	return b.String() + ".\n"
}

func (l *line) error(library string) string {
	g, ok := l.worst[library]
	if !ok {
		return ""
	}
	return g.String()
}
