package grammar

import "math/bits"

// Mask is a set of tokens. A Mask that a Matcher returns does not change.
type Mask struct {
	words []uint64
	count int
	size  int
}

func newMask(size int) *Mask { return &Mask{words: make([]uint64, (size+63)/64), size: size} }

func (m *Mask) set(token int32) { m.words[token/64] |= 1 << (token % 64) }

// Has reports whether the set contains a token.
func (m *Mask) Has(token int32) bool {
	return token >= 0 && int(token) < m.size && m.words[token/64]>>(token%64)&1 != 0
}

// Count returns the number of tokens in the set.
func (m *Mask) Count() int { return m.count }

// Only returns the token of a set of one token.
func (m *Mask) Only() (token int32, ok bool) {
	if m.count != 1 {
		return 0, false
	}
	for i, w := range m.words {
		if w != 0 {
			return int32(64*i + bits.TrailingZeros64(w)), true
		}
	}
	return 0, false
}

// maskOf returns the tokens that may follow a state. If the work is exhausted, the mask is
// wrong. The caller holds mu.
func (g *Grammar) maskOf(s *state, v *Vocabulary) *Mask {
	if s.mask != nil && s.of == v {
		return s.mask
	}
	m := g.makeMask(s, v)
	if g.stacks.exhausted() || s == dead {
		return m
	}
	if len(g.masked) >= maxMasks {
		g.masked[0].mask, g.masked[0].of = nil, nil
		g.masked = g.masked[1:]
	}
	if s.mask == nil {
		g.masked = append(g.masked, s)
	}
	s.mask, s.of = m, v
	return m
}

func (g *Grammar) makeMask(s *state, v *Vocabulary) *Mask {
	m := newMask(v.Size())
	if s.final {
		for _, t := range v.ends {
			m.set(t)
		}
	}
	plain := uint8(0) // tokens with at most plain plain characters are in the mask
	if reach := g.plainReach(s); reach >= plainLevels[0] {
		for i, level := range plainLevels {
			if level <= reach {
				plain = uint8(level)
				copy(m.words, v.plain[i].words)
			}
		}
		if s.final {
			for _, t := range v.ends {
				m.set(t)
			}
		}
	}
	g.walk(m, s, v, plain)
	for _, w := range m.words {
		m.count += bits.OnesCount64(w)
	}
	return m
}

// walk adds the tokens that the automaton matches, except for those below nodes with
// at most plain plain characters.
func (g *Grammar) walk(m *Mask, s *state, v *Vocabulary, plain uint8) {
	states := make([]*state, v.deep+1)
	states[0] = s
	nodes, classes := v.nodes, &g.classes
	for i := 0; i < len(nodes); {
		n := &nodes[i]
		if n.plain <= plain {
			i = int(n.after)
			continue
		}
		from := states[n.depth]
		var to *state
		if from.next != nil {
			to = from.next[classes[n.value]]
		}
		if to == nil {
			to = g.makeStep(from, classes[n.value])
		}
		if to == dead {
			i = int(n.after)
			continue
		}
		for t := n.token; t >= 0; t = v.same[t] {
			m.set(t)
		}
		states[n.depth+1] = to
		i++
	}
}
