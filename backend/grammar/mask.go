package grammar

import (
	"math/bits"
	"slices"
)

// Mask is a set of tokens that a grammar allows. A Mask that a Matcher returns does not
// change.
type Mask struct {
	// words holds one bit for each token, unless the set is small: then few holds its
	// tokens, ascending.
	words []uint64
	few   []int32
	count int
	size  int
}

// fewTokens is the size of the largest set that is kept as a list.
const fewTokens = 512

func newMask(size int) *Mask { return &Mask{words: make([]uint64, (size+63)/64), size: size} }

func (m *Mask) set(token int32) { m.words[token/64] |= 1 << (token % 64) }

// Has reports whether the set contains a token.
func (m *Mask) Has(token int32) bool {
	if m.words == nil {
		_, ok := slices.BinarySearch(m.few, token)
		return ok
	}
	return token >= 0 && int(token) < m.size && m.words[token/64]>>(token%64)&1 != 0
}

// Count returns the number of tokens in the set.
func (m *Mask) Count() int { return m.count }

// If the set has one token, Only returns it.
func (m *Mask) Only() (token int32, ok bool) {
	if m.count != 1 {
		return 0, false
	}
	return m.few[0], true
}

// finish counts the tokens, and makes a small set small.
func (m *Mask) finish() {
	for _, w := range m.words {
		m.count += bits.OnesCount64(w)
	}
	if m.count > fewTokens {
		return
	}
	m.few = make([]int32, 0, m.count)
	for i, w := range m.words {
		for ; w != 0; w &= w - 1 {
			m.few = append(m.few, int32(64*i+bits.TrailingZeros64(w)))
		}
	}
	m.words = nil
}

// bytes returns the memory that the mask takes.
func (m *Mask) bytes() int { return 64 + 8*len(m.words) + 4*len(m.few) }

// maskOf returns the tokens that may follow a state of the automaton. If the limit of
// work is reached, the mask that maskOf returns is wrong. The caller of maskOf holds
// mu.
func (g *Grammar) maskOf(s *state, v *Vocabulary) *Mask {
	if s.mask != nil && s.of == v {
		return s.mask
	}
	m := g.makeMask(s, v)
	if g.stacks.exhausted() || s == dead {
		return m
	}
	if s.mask == nil {
		g.masked = append(g.masked, s)
	} else {
		g.maskBytes -= s.mask.bytes()
	}
	s.mask, s.of = m, v
	g.maskBytes += m.bytes()
	for g.maskBytes > maxMaskBytes && len(g.masked) > 1 {
		oldest := g.masked[0]
		g.maskBytes -= oldest.mask.bytes()
		oldest.mask, oldest.of = nil, nil
		g.masked = g.masked[1:]
	}
	return m
}

func (g *Grammar) makeMask(s *state, v *Vocabulary) *Mask {
	m := newMask(v.Size())
	if s.final {
		for _, t := range v.ends {
			m.set(t)
		}
	}
	plain := uint8(0) // tokens with at most `plain` characters, all of them plain, are in the mask
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
	m.finish()
	return m
}

// walk adds the tokens that the automaton matches. walk leaves out the nodes of the
// tree whose tokens have at most `plain` characters, all of them plain.
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
