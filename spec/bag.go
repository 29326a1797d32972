package spec

// bag sums scores by token. Emptying it takes no time: entries of earlier
// rounds are recognised by their round.
type bag struct {
	entries []scored
	places  []place // a hash table, a power of two long
	round   uint32
}

type scored struct {
	token int32
	score float32
}

type place struct {
	round uint32
	entry uint32
}

// maxBag is how many tokens a bag takes; it holds a quarter of the table.
const maxBag = 512

func newBag() bag { return bag{places: make([]place, 4*maxBag), entries: make([]scored, 0, maxBag)} }

func (b *bag) empty() {
	b.entries = b.entries[:0]
	if b.round++; b.round == 0 {
		clear(b.places)
		b.round = 1
	}
}

// add adds to a token's score. A full bag drops tokens that it does not hold.
func (b *bag) add(token int32, score float32) {
	mask := uint32(len(b.places) - 1)
	for i := uint32(token) * 0x9e3779b1 >> 21 & mask; ; i = (i + 1) & mask {
		p := &b.places[i]
		if p.round != b.round {
			if len(b.entries) < maxBag {
				*p = place{b.round, uint32(len(b.entries))}
				b.entries = append(b.entries, scored{token, score})
			}
			return
		}
		if e := &b.entries[p.entry]; e.token == token {
			e.score += score
			return
		}
	}
}
