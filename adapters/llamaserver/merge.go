package llamaserver

import (
	"strings"

	"github.com/sdnpu/sdnpu/backend/engine"
)

const (
	// freeRepeats is how many events in a row may repeat a content before
	// they must grow.
	freeRepeats = 8
	// heldBytes sends what is held, whatever it repeats: a line may have 8 MB.
	heldBytes = 1 << 20
)

// merger joins pieces into events so that the host's repeat rule never cuts a
// stream: past freeRepeats, each further event with the same trimmed content
// waits for twice as many pieces as the one before. Joined words differ from
// one word, so only white space ever grows far; twenty events then hold some
// eight thousand pieces, and any other text goes out as it comes.
type merger struct {
	last    string // trimmed content of the last event sent
	repeats int    // events in a row with it; the host starts at an empty one

	text    strings.Builder // what is held
	trimmed string          // the same, trimmed
	tokens  []engine.TokenLogprob
	pieces  int // how many it joins
}

// add takes a piece and returns the event to send now, if any.
func (m *merger) add(p engine.Piece) (engine.Piece, bool) {
	m.text.WriteString(p.Text)
	m.tokens = append(m.tokens, p.Tokens...)
	m.pieces++
	if strings.TrimSpace(p.Text) != "" { // else the trimmed text stays
		m.trimmed = strings.TrimSpace(m.text.String())
	}
	if m.text.Len() == 0 || m.pieces < m.wanted() && m.text.Len() < heldBytes {
		return engine.Piece{}, false
	}
	return m.send(), true
}

// wanted is how many pieces the next event must join.
func (m *merger) wanted() int {
	if m.trimmed != m.last || m.repeats < freeRepeats {
		return 1
	}
	return 2 << min(m.repeats-freeRepeats, 24)
}

// rest returns what is still held at the end.
func (m *merger) rest() (engine.Piece, bool) {
	if m.text.Len() == 0 && len(m.tokens) == 0 {
		return engine.Piece{}, false
	}
	return m.send(), true
}

func (m *merger) send() engine.Piece {
	if m.trimmed == m.last {
		m.repeats++
	} else {
		m.last, m.repeats = m.trimmed, 1
	}
	p := engine.Piece{Text: m.text.String(), Tokens: m.tokens}
	m.text.Reset()
	m.trimmed, m.tokens, m.pieces = "", nil, 0
	return p
}
