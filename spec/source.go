package spec

// Source knows what followed contexts. Its methods take and give plain numbers,
// so that other packages can be sources without knowing this one.
type Source interface {
	// Levels writes what followed the contexts of 0, 1, 2 … tokens that end a
	// text and returns how many of them it knows; it knows no longer ones.
	// context holds the last tokens, the newest first. total is how often any
	// token followed, distinct how many different ones did, and first begins
	// their list. All three have room for len(context)+1 entries.
	Levels(context []int32, total, distinct []float32, first []int32) int
	// Successor gives an entry of such a list and the place of the next one,
	// [End] after the last. Counts never grow along a list.
	Successor(at int32) (token int32, count float32, next int32)
}

// End is the place after the last successor.
const End int32 = -1 << 31

// Levels implements [Source].
func (x *Index) Levels(context []int32, total, distinct []float32, first []int32) int {
	h := emptyContext
	for k := 0; ; k++ {
		s := x.find(check(h))
		if s.check == 0 {
			return k
		}
		if s.total() == 1 {
			return x.follow(s.first, k, context, total, distinct, first)
		}
		total[k], distinct[k], first[k] = float32(s.total()), float32(s.distinct()), s.first
		if k == x.depth || k == len(context) || context[k] < 0 {
			return k + 1
		}
		h = extendContext(h, context[k])
	}
}

// follow compares the text before the only place of a context of k tokens: all
// longer contexts that agree stand there too.
func (x *Index) follow(place int32, k int, context []int32, total, distinct []float32, first []int32) int {
	for {
		total[k], distinct[k], first[k] = 1, 1, ^place
		before := int(place) - k - 1
		if k == x.depth || k == len(context) || before < 0 || context[k] < 0 || x.text[before] != context[k] {
			return k + 1
		}
		k++
	}
}

// Successor implements [Source]: a negative place is one in the text.
func (x *Index) Successor(at int32) (token int32, count float32, next int32) {
	if at < 0 {
		return x.text[^at], 1, End
	}
	e := &x.edges[at]
	return e.token, float32(e.count), e.next
}
