package tokendb

// level is what a part of a database knows of a context: how often a token
// followed, how many different ones did, and where their list begins: the
// number of an entry of a segment, or in lists.
type level struct {
	total, distinct uint32
	first           int32
	counted         bool // the list is in lists
}

// occurrence is a place of a rare context.
type occurrence struct {
	token, place uint32
	shared       int // tokens of the context that stand before it
}

// listed is an entry of a list that a query made.
type listed struct {
	token int32
	count uint32
	last  bool
}

// lists holds what one query counts, and its memory for the next one.
type lists struct {
	entries []listed
	kept    int // entries that stay
	found   []occurrence
	tally   []successor
}

// reset forgets the lists of the query before but those that stay.
func (l *lists) reset() { l.entries = l.entries[:l.kept] }

// count fills in the levels k to longest from the places found.
func (l *lists) count(k, longest int, out *[depth + 1]level) {
	l.tally = l.tally[:0]
	total := uint32(0)
	for at := longest; at >= k; at-- {
		before := total
		for _, o := range l.found {
			if o.shared == at {
				l.add(o.token, o.place)
				total++
			}
		}
		if at < longest && total == before { // the same places
			out[at] = out[at+1]
			continue
		}
		out[at] = level{total: total, distinct: uint32(len(l.tally)), first: l.store(), counted: true}
	}
}

// add adds an occurrence to the tally, which stays ordered.
func (l *lists) add(token, place uint32) {
	s := successor{token: token, count: 1, last: place}
	for i, t := range l.tally {
		if t.token == token {
			s.count, s.last = t.count+1, max(t.last, place)
			copy(l.tally[i:], l.tally[i+1:])
			l.tally = l.tally[:len(l.tally)-1]
			break
		}
	}
	l.tally = insert(l.tally, s, rare)
}

// store keeps the tally as a list and returns where it begins.
func (l *lists) store() int32 {
	first := int32(len(l.entries))
	for i, s := range l.tally {
		l.entries = append(l.entries, listed{token: int32(s.token), count: s.count, last: i == len(l.tally)-1})
	}
	return first
}
