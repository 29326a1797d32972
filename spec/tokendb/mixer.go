package tokendb

// mixer adds up lists of several parts. Beginning takes no time: entries of
// earlier rounds are recognised by their round.
type mixer struct {
	entries []listed
	table   [1024]struct{ round, entry uint32 } // more than all parts' lists
	round   uint32
}

func (m *mixer) begin() {
	m.entries = m.entries[:0]
	if m.round++; m.round == 0 {
		clear(m.table[:])
		m.round = 1
	}
}

// add adds to a token's count and reports whether it had one.
func (m *mixer) add(token int32, count uint32) bool {
	for i := uint32(token) * 0x9e3779b1 >> 22; ; i = (i + 1) % uint32(len(m.table)) {
		p := &m.table[i]
		if p.round != m.round {
			if len(m.entries) < len(m.table)-1 {
				p.round, p.entry = m.round, uint32(len(m.entries))
				m.entries = append(m.entries, listed{token: token, count: count})
			}
			return false
		}
		if e := &m.entries[p.entry]; e.token == token {
			e.count += count
			return true
		}
	}
}

// store orders the entries by count, what was added first among equals, and
// keeps the first ones as a list.
func (m *mixer) store(l *lists) int32 {
	for i, e := range m.entries {
		for ; i > 0 && m.entries[i-1].count < e.count; i-- {
			m.entries[i] = m.entries[i-1]
		}
		m.entries[i] = e
	}
	first := int32(len(l.entries))
	l.entries = append(l.entries, m.entries[:min(len(m.entries), maxSuccessors)]...)
	if len(l.entries) > int(first) {
		l.entries[len(l.entries)-1].last = true
	} else {
		l.entries = append(l.entries, listed{last: true})
	}
	return first
}
