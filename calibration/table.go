package calibration

// Options tunes a [Table]. The zero value of a field stands for its default.
type Options struct {
	// Depth is the longest context in tokens. Zero means 4.
	Depth int
	// Weight is how many occurrences a certain token counts for. Zero means 4.
	Weight float32
}

// maxFanout bounds the successors that one context keeps.
const maxFanout = 64

// Table sums the model's probabilities by context. It holds no pointers. It is
// not safe for concurrent use.
type Table struct {
	options Options
	slots   []slot // a hash table, a power of two long
	shift   uint8  // 32 - log2(len(slots))
	used    int
	edges   []edge
}

type slot struct {
	check           uint32 // of the context's hash; 0 is an empty slot
	total, distinct float32
	first           int32
}

// edge is a successor in a list by falling weight.
type edge struct {
	token  int32
	weight float32
	next   int32
}

// end is the place after the last successor, as package spec has it.
const end int32 = -1 << 31

// New returns an empty table.
func New(o Options) *Table {
	if o.Depth == 0 {
		o.Depth = 4
	}
	if o.Weight == 0 {
		o.Weight = 4
	}
	t := &Table{options: o}
	t.resize(10)
	return t
}

// Reset empties the table and keeps its memory.
func (t *Table) Reset() {
	clear(t.slots)
	t.edges, t.used = t.edges[:0], 0
}

// SizeBytes is the memory that the table holds.
func (t *Table) SizeBytes() int { return len(t.slots)*16 + cap(t.edges)*12 }

// Observe adds a position: context are the tokens up to it, the newest last, of
// which the last Depth are used; tokens and their probabilities are what the
// model expected to come next, likeliest first. Probabilities that are not
// within 0 to 1 are left out.
func (t *Table) Observe(context, tokens []int32, probabilities []float32) {
	if 4*(t.used+t.options.Depth) > 3*len(t.slots) {
		t.resize(33 - int(t.shift))
	}
	h := emptyContext
	for k := 1; k <= t.options.Depth && k <= len(context); k++ {
		newest := context[len(context)-k]
		if newest < 0 {
			return
		}
		h = extendContext(h, newest)
		s := t.find(check(h))
		if s.check == 0 {
			*s = slot{check: check(h), first: end}
			t.used++
		}
		for i, token := range tokens {
			if p := probabilities[i]; p > 0 && p <= 1 {
				t.add(s, token, p*t.options.Weight)
			}
		}
	}
}

// add raises a successor's weight and moves it to its place.
func (t *Table) add(s *slot, token int32, weight float32) {
	at, before, n := s.first, end, 0
	for ; at != end && t.edges[at].token != token; at = t.edges[at].next {
		before = at
		n++
	}
	switch {
	case at != end:
		t.unlink(s, at, before)
	case n < maxFanout:
		at = int32(len(t.edges))
		t.edges = append(t.edges, edge{token: token})
	default:
		return // the list holds likelier ones
	}
	e := &t.edges[at]
	old := e.weight
	e.weight += weight
	s.total += weight
	s.distinct += min(1, e.weight) - min(1, old)
	ahead := end
	for i := s.first; i != end && t.edges[i].weight >= e.weight; i = t.edges[i].next {
		ahead = i
	}
	if ahead == end {
		e.next, s.first = s.first, at
	} else {
		e.next, t.edges[ahead].next = t.edges[ahead].next, at
	}
}

func (t *Table) unlink(s *slot, at, before int32) {
	if before == end {
		s.first = t.edges[at].next
	} else {
		t.edges[before].next = t.edges[at].next
	}
}

// Levels implements package spec's Source: contexts of 1 to Depth tokens.
func (t *Table) Levels(context []int32, total, distinct []float32, first []int32) int {
	total[0], distinct[0], first[0] = 0, 0, end
	h := emptyContext
	for k := 1; ; k++ {
		if k > t.options.Depth || k > len(context) || context[k-1] < 0 {
			return k
		}
		h = extendContext(h, context[k-1])
		s := t.find(check(h))
		if s.check == 0 {
			return k
		}
		total[k], distinct[k], first[k] = s.total, s.distinct, s.first
	}
}

// Successor implements package spec's Source.
func (t *Table) Successor(at int32) (token int32, weight float32, next int32) {
	e := &t.edges[at]
	return e.token, e.weight, e.next
}

// A context is hashed from its newest token to its oldest.
const emptyContext uint64 = 0x9e3779b97f4a7c15

func extendContext(h uint64, token int32) uint64 {
	h = (h ^ uint64(uint32(token))) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

// check is what a slot keeps of a hash; never 0.
func check(h uint64) uint32 { return uint32(h>>32) | 1 }

func (t *Table) find(c uint32) *slot {
	mask := uint32(len(t.slots) - 1)
	for i := c * 0x9e3779b1 >> t.shift; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.check == c || s.check == 0 {
			return s
		}
	}
}

func (t *Table) resize(bits int) {
	old := t.slots
	t.slots, t.shift = make([]slot, 1<<bits), uint8(32-bits)
	for _, s := range old {
		if s.check != 0 {
			*t.find(s.check) = s
		}
	}
}
