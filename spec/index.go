package spec

import "slices"

// Separator ends a document in an [Index]: no context reaches across it. Any
// negative token does, this one by convention.
const Separator int32 = -1

// maxFanout bounds the successors that a context keeps: the rarest gives way.
// It bounds the time of a token, and no draft has room for the sixty-fifth.
const maxFanout = 64

// Index counts what followed each context of at most Depth tokens in a growing
// text. The counts are those of a table of all n-grams, but a context that was
// seen once is stored at its shortest unique length only, with the place where
// it stands: longer ones are added when it is seen again. So a token costs
// one or two entries instead of Depth of them.
//
// An Index holds no pointers and allocates only when it grows. It is not safe
// for concurrent use.
type Index struct {
	depth int
	text  []int32
	slots []slot // an open-addressed table of contexts
	used  int
	edges []edge
}

// slot is one context.
type slot struct {
	check uint32 // of its hash; 0 is an empty slot
	// counts holds how often a token followed and, above bit totalBits, how many
	// different ones did. Both stop at what fits.
	counts uint32
	// first is the head of the list of successors or, as long as one token
	// followed, its place in text.
	first int32
}

const (
	totalBits   = 20
	maxTotal    = 1<<totalBits - 1
	maxDistinct = 1<<(32-totalBits) - 1
)

func (s *slot) total() uint32    { return s.counts & maxTotal }
func (s *slot) distinct() uint32 { return s.counts >> totalBits }

// edge is a successor in a list that runs from the most to the least frequent,
// the newest first among equals.
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

// Len is the number of tokens, separators included.
func (x *Index) Len() int { return len(x.text) }

// Text returns the tokens; the caller must not change them.
func (x *Index) Text() []int32 { return x.text }

// SizeBytes is the memory that the index holds.
func (x *Index) SizeBytes() int {
	return cap(x.text)*4 + len(x.slots)*12 + cap(x.edges)*12
}

// A context is hashed from its newest token to its oldest, so that one pass
// gives the hashes of all its suffixes.
const emptyContext uint64 = 0x9e3779b97f4a7c15

func extendContext(h uint64, token int32) uint64 {
	h = (h ^ uint64(uint32(token))) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

// check is what a slot keeps of a hash; never 0.
func check(h uint64) uint32 { return uint32(h>>32) | 1 }

// find returns the slot of a context, or the empty slot where it belongs. The
// place follows from the check alone, so that the table can grow without the
// text.
func (x *Index) find(c uint32) *slot {
	slots := x.slots
	for i := int(uint64(c*0x9e3779b1) * uint64(len(slots)) >> 32); ; i++ {
		if i == len(slots) {
			i = 0
		}
		if s := &slots[i]; s.check == c || s.check == 0 {
			return s
		}
	}
}

// Append adds a token to the text. Separator starts a new document.
func (x *Index) Append(token int32) {
	place := len(x.text)
	x.text = append(x.text, token)
	if token < 0 {
		return
	}
	// One token adds two slots at most. The table stays an eighth empty.
	if 8*(x.used+2) > 7*len(x.slots) {
		x.resize(len(x.slots) + len(x.slots)/4)
	}
	for h, k := emptyContext, 0; ; k++ {
		s := x.find(check(h))
		switch {
		case s.check == 0:
			x.plant(s, h, place)
			return
		case s.total() == 1:
			earlier := int(s.first)
			x.branch(s, x.text[earlier])
			if before := earlier - k - 1; k < x.depth && before >= 0 && x.text[before] >= 0 {
				longer := extendContext(h, x.text[before])
				x.plant(x.find(check(longer)), longer, earlier)
			}
		}
		x.count(s, token)
		before := place - k - 1
		if k == x.depth || before < 0 || x.text[before] < 0 {
			return
		}
		h = extendContext(h, x.text[before])
	}
}

// plant fills an empty slot with a context that was seen once.
func (x *Index) plant(s *slot, h uint64, place int) {
	if s.check != 0 {
		return // two contexts of one hash: the older stays
	}
	*s = slot{check: check(h), counts: 1 | 1<<totalBits, first: int32(place)}
	x.used++
}

// branch gives a context that was seen once a list of successors.
func (x *Index) branch(s *slot, token int32) {
	s.first = int32(len(x.edges))
	x.edges = append(x.edges, edge{token: token, count: 1, next: End})
}

// count adds one occurrence of token after a context that has a list.
func (x *Index) count(s *slot, token int32) {
	if s.total() < maxTotal {
		s.counts++
	}
	// One walk from the most counted edge to the least finds the token and where it
	// goes once it has one more: behind ahead, the last edge that then has more than
	// it. group is the last edge with more than those at hand, whose count is last.
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
		} else { // the rarest gives way
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

// link lets an edge, or a list's end, come behind another one; behind End is the
// list's beginning.
func (x *Index) link(s *slot, behind, next int32) {
	if behind == End {
		s.first = next
	} else {
		x.edges[behind].next = next
	}
}

// Reserve makes room for n more tokens of ordinary text, so that adding them
// rarely moves the table.
func (x *Index) Reserve(n int) {
	x.text, x.edges = slices.Grow(x.text, n), slices.Grow(x.edges, 2*n)
	if want := 8 * (x.used + 2*n) / 7; want > len(x.slots) {
		x.resize(want)
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
