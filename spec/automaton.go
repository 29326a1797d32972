package spec

// Automaton is a suffix automaton over a growing text: it knows in constant
// time per token the longest end of the text that occurred before, and where
// (sd.npu section 4.4; SAM decoding). As a drafter of its own it is the
// published baseline; [Drafter] does better with counts.
//
// States hold their latest end, not the first: copying the first end to clones
// makes every draft the earliest occurrence for ever.
type Automaton struct {
	text   []int32
	states []state
	edges  []arc
	last   int32
}

type state struct {
	length, link int32
	end          int32 // index of the last token of its latest occurrence but the newest
	latest       int32 // the same, the newest included
	first        int32 // of its edges, -1 none
}

type arc struct{ token, to, next int32 }

// maxRefresh bounds how many suffixes of the text have their end brought up to
// date per token.
const maxRefresh = 16

// NewAutomaton returns the automaton of text.
func NewAutomaton(text []int32) *Automaton {
	a := &Automaton{}
	a.Reset()
	for _, token := range text {
		a.Append(token)
	}
	return a
}

// Reset empties the automaton and keeps its memory.
func (a *Automaton) Reset() {
	a.text, a.edges = a.text[:0], a.edges[:0]
	a.states = append(a.states[:0], state{link: -1, end: -1, latest: -1, first: -1})
	a.last = 0
}

// Append adds a token; amortised constant time for bounded fan-out.
func (a *Automaton) Append(token int32) {
	place := int32(len(a.text))
	a.text = append(a.text, token)
	current := int32(len(a.states))
	a.states = append(a.states, state{length: a.states[a.last].length + 1, end: -1, latest: place, first: -1})
	p := a.last
	for p >= 0 && a.arc(p, token) == nil {
		a.connect(p, token, current)
		p = a.states[p].link
	}
	if p >= 0 {
		a.states[current].link = a.suffix(p, token)
	}
	a.last = current
	for s, n := a.states[current].link, 0; s > 0 && n < maxRefresh; s, n = a.states[s].link, n+1 {
		a.states[s].end, a.states[s].latest = a.states[s].latest, place
	}
}

// suffix returns the state of p's text and token, split off a longer one where
// that is needed.
func (a *Automaton) suffix(p, token int32) int32 {
	q := a.arc(p, token).to
	if a.states[q].length == a.states[p].length+1 {
		return q
	}
	clone := int32(len(a.states))
	a.states = append(a.states, a.states[q])
	c := &a.states[clone]
	c.length, c.first = a.states[p].length+1, -1
	for e := a.states[q].first; e >= 0; e = a.edges[e].next {
		a.connect(clone, a.edges[e].token, a.edges[e].to)
	}
	for ; p >= 0; p = a.states[p].link {
		e := a.arc(p, token)
		if e == nil || e.to != q {
			break
		}
		e.to = clone
	}
	a.states[q].link = clone
	return clone
}

func (a *Automaton) arc(s, token int32) *arc {
	for e := a.states[s].first; e >= 0; e = a.edges[e].next {
		if a.edges[e].token == token {
			return &a.edges[e]
		}
	}
	return nil
}

func (a *Automaton) connect(s, token, to int32) {
	a.edges = append(a.edges, arc{token: token, to: to, next: a.states[s].first})
	a.states[s].first = int32(len(a.edges) - 1)
}

// LongestMatch returns the length of the longest end of the text that occurred
// before, and the index behind an earlier occurrence: the latest one, as long
// as its end was brought up to date (Append says when).
func (a *Automaton) LongestMatch() (length, next int) {
	s := a.states[a.last].link
	if s <= 0 {
		return 0, 0
	}
	return int(a.states[s].length), int(a.states[s].end) + 1
}

// Propose fills an empty tree with a chain of at most rows rows: what followed
// the longest match.
func (a *Automaton) Propose(t *Tree, rows int) {
	if length, next := a.LongestMatch(); length > 0 {
		t.chain(a.text[next:min(next+rows, len(a.text))])
	}
}
