package draft

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrMode is returned for a mode that is not known.
var ErrMode = errors.New("draft: unknown mode")

// Mode says where drafts come from. The zero value drafts nothing.
type Mode struct {
	// Lookup and Automaton draft from the text so far. Alone they are the
	// published baselines, one chain: prompt lookup and suffix automaton. With
	// other terms they are counts in one tree, of short contexts and of long.
	Lookup, Automaton bool
	// Calibration drafts what the model nearly said, too: behind the tokens of
	// the prompt and of the output.
	Calibration bool
	// Extension drafts again what was rejected and yet is what the model says
	// behind it (draft extension, sd.npu section 4.4); Recycling goes further and
	// learns from all that the model thought likely behind rejected rows.
	Extension, Recycling bool
	// Database drafts from earlier requests.
	Database bool
	// Published does all this as the papers do, to be compared with: one match,
	// two steps of calibration behind the prompt's tokens, fixed scores.
	Published bool
}

var terms = map[string]func(*Mode){
	"pld": func(m *Mode) { m.Lookup = true },
	"sam": func(m *Mode) { m.Automaton = true },
	"cal": func(m *Mode) { m.Calibration = true },
	"ext": func(m *Mode) { m.Extension = true },
	"rec": func(m *Mode) { m.Recycling = true },
	"db":  func(m *Mode) { m.Database = true },
}

// Default is every source but those that another one includes. Calibration makes
// the head run for every row of a prompt; the others cost no model work.
var Default = Mode{Automaton: true, Calibration: true, Recycling: true, Database: true}

// Paper is the published pipeline.
var Paper = Mode{Automaton: true, Calibration: true, Extension: true, Database: true, Published: true}

// Parse reads a mode: terms joined by "+" (pld, sam, cal, ext, rec, db), "default",
// "paper" or "off". "paper-cal", "paper-ext" and "paper-cal-ext" leave out parts.
func Parse(s string) (Mode, error) {
	switch s {
	case "off":
		return Mode{}, nil
	case "default":
		return Default, nil
	}
	if rest, ok := strings.CutPrefix(s, "paper"); ok {
		for _, c := range []bool{true, false} {
			for _, e := range []bool{true, false} {
				m := Paper
				if m.Calibration, m.Extension = c, e; m.String() == "paper"+rest {
					return m, nil
				}
			}
		}
	}
	var m Mode
	for term := range strings.SplitSeq(s, "+") {
		set, ok := terms[term]
		if !ok {
			known := make([]string, 0, len(terms))
			for name := range terms {
				known = append(known, name)
			}
			slices.Sort(known)
			return Mode{}, fmt.Errorf("%w: %.80q in %.80q: off, default, paper or terms of %s joined by +", ErrMode, term, s, strings.Join(known, ", "))
		}
		set(&m)
	}
	return m, nil
}

// String writes the mode as Parse reads it.
func (m Mode) String() string {
	switch m {
	case Mode{}:
		return "off"
	case Default:
		return "default"
	}
	if m.Published {
		text := "paper"
		if !m.Calibration {
			text += "-cal"
		}
		if !m.Extension {
			text += "-ext"
		}
		return text
	}
	var list []string
	for _, term := range []struct {
		name string
		on   bool
	}{{"pld", m.Lookup}, {"sam", m.Automaton}, {"cal", m.Calibration}, {"ext", m.Extension}, {"rec", m.Recycling}, {"db", m.Database}} {
		if term.on {
			list = append(list, term.name)
		}
	}
	return strings.Join(list, "+")
}

// Rejected reports whether the mode learns from rows that were not accepted.
func (m Mode) Rejected() bool { return m.Extension || m.Recycling }

// table reports whether the mode learns from the model's probabilities.
func (m Mode) table() bool { return !m.Published && (m.Calibration || m.Rejected()) }

// chain reports whether the mode is a published baseline: one source, one chain.
func (m Mode) chain() bool {
	return m == Mode{Lookup: true} || m == Mode{Automaton: true}
}

// learns reports whether sources have weights.
func (m Mode) learns() bool { return m != Mode{} && !m.chain() && !m.Published }
