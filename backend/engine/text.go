package engine

import (
	"strings"
	"unicode/utf8"
)

// text puts the bytes of tokens together: it holds back what may still become a
// character or a stop text, and cuts at the first stop. How the bytes were
// divided into tokens makes no difference to the text.
//
// The first stop is the one that is complete first, the longest of those that
// end together. Bytes that are no UTF-8 become U+FFFD, one each, as in a
// conversion to []rune.
type text struct {
	stops   []stop
	partial []byte // bytes of a character that may go on
	pending []byte // characters not handed out
	// read counts bytes turned into characters, written those characters'
	// bytes; pending ends at written.
	read, written int
	tokens        []textToken // not handed out
	begin         int         // where the first of them begins, as written
	stopped       bool
}

// textToken is a token whose text has not been handed out.
type textToken struct {
	token TokenLogprob
	// end is where its bytes end, counted as read; until is the same end
	// counted as written, -1 as long as it is not known.
	end, until int
}

// stop finds one stop text in a stream (Knuth, Morris, Pratt).
type stop struct {
	text string
	// borders[n] is the length of the longest proper prefix of text[:n] that
	// is also its suffix.
	borders []int
	matched int // bytes of text that the stream ends with
}

func newStop(s string) stop {
	borders := make([]int, len(s)+1)
	for n, k := 1, 0; n < len(s); n++ {
		for k > 0 && s[k] != s[n] {
			k = borders[k]
		}
		if s[k] == s[n] {
			k++
		}
		borders[n+1] = k
	}
	return stop{text: s, borders: borders}
}

// add moves on by one byte and reports whether the stop is complete.
func (s *stop) add(b byte) bool {
	for s.matched > 0 && s.text[s.matched] != b {
		s.matched = s.borders[s.matched]
	}
	if s.text[s.matched] == b {
		s.matched++
	}
	return s.matched == len(s.text)
}

// newText drops empty stops: they would end every text before it begins.
func newText(stops []string) *text {
	t := &text{}
	for _, s := range stops {
		if s != "" {
			t.stops = append(t.stops, newStop(valid([]byte(s))))
		}
	}
	return t
}

// valid replaces each byte that is no UTF-8.
func valid(b []byte) string { return string([]rune(string(b))) }

// add takes the bytes of a token and returns what can be handed out. After
// stopped is set nothing may be added.
func (t *text) add(bytes []byte, token TokenLogprob) Piece {
	t.partial = append(t.partial, bytes...)
	t.tokens = append(t.tokens, textToken{token: token, end: t.read + len(t.partial), until: -1})
	for len(t.partial) > 0 && utf8.FullRune(t.partial) && !t.stopped {
		t.character()
	}
	t.mark()
	return t.take(len(t.pending) - t.held())
}

// finish returns what was held back: nothing can complete it any more.
func (t *text) finish() Piece {
	for len(t.partial) > 0 && !t.stopped {
		t.character()
	}
	t.mark()
	return t.take(len(t.pending))
}

// character moves one character from partial to pending.
func (t *text) character() {
	r, size := utf8.DecodeRune(t.partial)
	t.partial = t.partial[size:]
	t.read += size
	from := len(t.pending)
	t.pending = utf8.AppendRune(t.pending, r)
	t.written += len(t.pending) - from
	t.mark()
	longest := 0
	for _, b := range t.pending[from:] {
		for i := range t.stops {
			if t.stops[i].add(b) {
				longest = max(longest, len(t.stops[i].text))
			}
		}
	}
	if longest > 0 {
		t.stopped = true
		t.pending = t.pending[:len(t.pending)-longest]
		t.written -= longest
		t.drop()
	}
}

// drop forgets the tokens that begin behind the cut; what the others hold
// behind it is not theirs any more.
func (t *text) drop() {
	begin := t.begin
	for i := range t.tokens {
		token := &t.tokens[i]
		if begin >= t.written {
			t.tokens = t.tokens[:i]
			return
		}
		if token.until < 0 || token.until > t.written {
			token.until = t.written
		}
		begin = token.until
	}
}

// mark notes where the tokens end whose bytes are all characters by now.
func (t *text) mark() {
	for i := range t.tokens {
		if t.tokens[i].until < 0 && t.tokens[i].end <= t.read {
			t.tokens[i].until = t.written
		}
	}
}

// held is how many pending bytes may belong to a stop.
func (t *text) held() int {
	n := 0
	if t.stopped {
		return n
	}
	for i := range t.stops {
		n = max(n, t.stops[i].matched)
	}
	return n
}

// take hands out n pending bytes and the tokens that end in them.
func (t *text) take(n int) Piece {
	if n == 0 {
		return Piece{}
	}
	p := Piece{Text: string(t.pending[:n])}
	t.pending = t.pending[n:]
	at := t.written - len(t.pending)
	i := 0
	for i < len(t.tokens) && t.tokens[i].until >= 0 && t.tokens[i].until <= at {
		p.Tokens = append(p.Tokens, t.tokens[i].token)
		t.begin = t.tokens[i].until
		i++
	}
	t.tokens = t.tokens[i:]
	return p
}

// tokenText is the text of one token by itself.
func tokenText(bytes []byte) string { return strings.ToValidUTF8(string(bytes), "\uFFFD") }
