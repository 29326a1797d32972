package spec

import (
	"slices"

	"github.com/sdnpu/sdnpu/spec/ngram"
)

// Separator separates documents in an [Index]: no context crosses it. Every negative token
// separates documents; Separator is the conventional one.
const Separator int32 = -1

// maxFanout bounds the successors of a context. A new successor replaces the
// rarest one. This bounds the time per token, and no draft has more than 64
// alternatives.
const maxFanout = 64

// Index counts which tokens followed each context of up to depth tokens in a
// growing text.
//
// It returns the counts of a table of all n-grams, but stores less. A context that
// occurred once has one entry, at its shortest unique length, with its place in
// the text; longer contexts get entries when that one occurs again. So a token
// costs one or two entries instead of depth entries.
//
// An Index holds no pointers and allocates only when it grows. It is not safe for
// concurrent use.
type Index struct {
	depth int
	text  []int32
	slots []slot // open-addressed hash table of contexts
	used  int
	edges []edge
}

// slot is one context.
type slot struct {
	check uint32 // of the context's hash; 0 marks an empty slot
	// counts holds the number of tokens that followed in its low totalBits bits and
	// the number of different ones above. Both saturate.
	counts uint32
	// first is the head of the list of successors. If one token followed, it is that
	// token's place in the text instead.
	first int32
}

const (
	totalBits   = 20
	maxTotal    = 1<<totalBits - 1
	maxDistinct = 1<<(32-totalBits) - 1
)

func (s *slot) total() uint32    { return s.counts & maxTotal }
func (s *slot) distinct() uint32 { return s.counts >> totalBits }

// edge is an entry of a list of successors. A list runs from the most to the least
// frequent successor; among equals the most recent one comes first.
type edge struct {
	token int32
	count uint32
	next  int32 // End after the last
}

// minSlots is the size of a new table.
const minSlots = 64

// NewIndex returns an empty index of contexts of 0 to depth tokens.
func NewIndex(depth int) *Index {
	return &Index{depth: depth, slots: make([]slot, minSlots)}
}

// Reset empties the index and keeps its memory.
func (x *Index) Reset() {
	clear(x.slots)
	x.text, x.edges, x.used = x.text[:0], x.edges[:0], 0
}

// Len returns the number of tokens, including separators.
func (x *Index) Len() int { return len(x.text) }

// Text returns the tokens. The caller must not change them.
func (x *Index) Text() []int32 { return x.text }

// SizeBytes returns the memory that the index holds.
func (x *Index) SizeBytes() int {
	return cap(x.text)*4 + len(x.slots)*12 + cap(x.edges)*12
}

// find returns the slot of a context, or the empty slot where it belongs.
func (x *Index) find(check uint32) *slot {
	slots := x.slots
	for i := ngram.Slot(check, len(slots)); ; i++ {
		if i == len(slots) {
			i = 0
		}
		if s := &slots[i]; s.check == check || s.check == 0 {
			return s
		}
	}
}

// Append adds a token to the text. A [Separator] starts a new document.
func (x *Index) Append(token int32) {
	place := len(x.text)
	x.text = append(x.text, token)
	if token < 0 {
		return
	}
	// A token adds at most two slots. An eighth of the table stays empty.
	if 8*(x.used+2) > 7*len(x.slots) {
		x.resize(len(x.slots) + len(x.slots)/4)
	}
	for h, k := ngram.Empty, 0; ; k++ {
		s := x.find(h.Check())
		switch {
		case s.check == 0:
			x.add(s, h, place)
			return
		case s.total() == 1:
			earlier := int(s.first)
			x.startList(s, x.text[earlier])
			if before := earlier - k - 1; k < x.depth && before >= 0 && x.text[before] >= 0 {
				longer := h.Extend(x.text[before])
				x.add(x.find(longer.Check()), longer, earlier)
			}
		}
		x.count(s, token)
		before := place - k - 1
		if k == x.depth || before < 0 || x.text[before] < 0 {
			return
		}
		h = h.Extend(x.text[before])
	}
}

// add fills an empty slot with a context that occurred once. If the slot is taken,
// two contexts have the same check and the older one stays.
func (x *Index) add(s *slot, h ngram.Hash, place int) {
	if s.check != 0 {
		return
	}
	*s = slot{check: h.Check(), counts: 1 | 1<<totalBits, first: int32(place)}
	x.used++
}

// startList gives a context that occurred once a list of successors.
func (x *Index) startList(s *slot, token int32) {
	s.first = int32(len(x.edges))
	x.edges = append(x.edges, edge{token: token, count: 1, next: End})
}

// count adds one occurrence of token to the list of a context.
func (x *Index) count(s *slot, token int32) {
	if s.total() < maxTotal {
		s.counts++
	}
	// One walk along the list finds the token's edge (at) and the edge that it has
	// to follow once its count has grown (ahead): the last one with a larger count
	// than the new one. group is the last edge with a larger count than the current
	// edge's, which is last.
	ahead, group, last := End, End, uint32(0)
	previous, before, at, n := End, End, s.first, 0
	for edges := x.edges; at != End; {
		e := &edges[at]
		if e.count != last {
			if ahead = before; last == e.count+1 {
				ahead = group
			}
			group, last = before, e.count
		}
		if e.token == token {
			break
		}
		previous, before, at = before, at, e.next
		n++
	}
	if at != End {
		x.link(s, before, x.edges[at].next)
	} else {
		if s.distinct() < maxDistinct {
			s.counts += 1 << totalBits
		}
		if n < maxFanout {
			at = int32(len(x.edges))
			x.edges = append(x.edges, edge{token: token})
		} else { // replace the rarest
			at, before = before, previous
			x.link(s, before, End)
			x.edges[at] = edge{token: token}
		}
		if ahead = before; last == 1 {
			ahead = group
		}
	}
	e := &x.edges[at]
	e.count++
	e.next = s.first
	if ahead != End {
		e.next = x.edges[ahead].next
	}
	x.link(s, ahead, at)
}

// link makes next follow the edge before. If before is [End], next becomes the head
// of the list.
func (x *Index) link(s *slot, before, next int32) {
	if before == End {
		s.first = next
	} else {
		x.edges[before].next = next
	}
}

// Reserve makes room for n more tokens of ordinary text, so that appending them
// rarely resizes the table.
func (x *Index) Reserve(n int) {
	x.text, x.edges = slices.Grow(x.text, n), slices.Grow(x.edges, 2*n)
	if slots := 8 * (x.used + 2*n) / 7; slots > len(x.slots) {
		x.resize(slots)
	}
}

// resize gives the table n slots.
func (x *Index) resize(n int) {
	old := x.slots
	x.slots = make([]slot, n)
	for _, s := range old {
		if s.check != 0 {
			*x.find(s.check) = s
		}
	}
}
