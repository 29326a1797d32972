package llamaserver

import (
	"strings"

	"github.com/sdnpu/sdnpu/backend/engine"
)

const (
	// freeRepeats is the number of consecutive events that may repeat a content
	// before events must join several pieces.
	freeRepeats = 8
	// heldBytes is the largest held text with its tokens. The host reads lines of up to 8 MB.
	heldBytes = 1 << 20
)

// merger joins pieces into events so that the host's limit on repetitions never
// ends a stream. After freeRepeats events with the same trimmed content, each
// further event joins twice as many pieces as the event before. Joined words
// differ from a single word, so only pieces of white space need large events:
// twenty events then hold about eight thousand pieces. Any other text is sent
// immediately.
type merger struct {
	last string // trimmed content of the last event sent
	// repeats is the number of consecutive events with the same content; the host starts with
	// an empty event
	repeats int

	text    strings.Builder // held text
	trimmed string          // trimmed is the content without surrounding white space
	tokens  []engine.TokenLogprob
	pieces  int // pieces is the number of pieces in text
	held    int // held is the number of bytes of text and tokens
}

// add adds a piece and returns the event to send now, if any.
func (m *merger) add(p engine.Piece) (engine.Piece, bool) {
	m.text.WriteString(p.Text)
	m.tokens = append(m.tokens, p.Tokens...)
	m.pieces++
	m.held += len(p.Text) + cost(p.Tokens)
	if strings.TrimSpace(p.Text) != "" { // otherwise the trimmed text does not change
		m.trimmed = strings.TrimSpace(m.text.String())
	}
	if m.text.Len() == 0 || m.pieces < m.piecesToJoin() && m.held < heldBytes {
		return engine.Piece{}, false
	}
	return m.send(), true
}

// piecesToJoin returns the number of pieces that the next event must join.
func (m *merger) piecesToJoin() int {
	if m.trimmed != m.last || m.repeats < freeRepeats {
		return 1
	}
	return 2 << min(m.repeats-freeRepeats, 24)
}

// rest returns the held pieces at the end.
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
	m.trimmed, m.tokens, m.pieces, m.held = "", nil, 0, 0
	return p
}

// cost estimates the memory of tokens, which is about their size as JSON.
func cost(tokens []engine.TokenLogprob) (bytes int) {
	for _, t := range tokens {
		bytes += 64 + len(t.Text) + cost(t.Top)
	}
	return bytes
}
