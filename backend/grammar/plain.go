package grammar

import (
	"slices"
	"unicode/utf8"
)

// In the strings of JSON, most tokens are allowed: all that consist of plain
// characters. A character is plain if JSON strings contain it without an escape. A mask
// takes the tokens of plain characters from a prepared set, and only the other tokens
// run through the automaton.

// plainLevels are the numbers of plain characters for which a vocabulary prepares the
// set of tokens with no more characters.
var plainLevels = []int{2, 4, 8, 16, 32, maxPlain}

// maxPlain is the largest number of plain characters of a token that is counted. A
// token with more plain characters counts as not plain.
const maxPlain = 64

// notPlain marks a token that is not made of at most maxPlain plain characters.
const notPlain = 255

// plainLength returns the number of characters of a token of plain characters, and else
// notPlain.
func plainLength(piece []byte) uint8 {
	n := 0
	for len(piece) > 0 {
		r, size := utf8.DecodeRune(piece)
		if r == utf8.RuneError && size == 1 || !plainRune(r) || n == maxPlain {
			return notPlain
		}
		n++
		piece = piece[size:]
	}
	return uint8(n)
}

func plainRune(r rune) bool { return r >= 0x20 && r != '"' && r != '\\' && r != 0x7F }

// plainBytes holds the UTF-8 encodings of all plain characters, as ranges of bytes.
var plainBytes = func() (list [][]byteRange) {
	for _, r := range newClass([]runeRange{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}}).negated() {
		byteSequences(r, func(s []byteRange) { list = append(list, slices.Clone(s)) })
	}
	return list
}()

// plainReach returns a number of characters, at most maxPlain: after the state, all
// texts of no more plain characters are allowed. The caller of plainReach holds mu.
func (g *Grammar) plainReach(s *state) int {
	if s == dead {
		return 0
	}
	reached := []*state{s}
	seen := map[*state]bool{s: true}
	for n := range maxPlain {
		var next []*state
		for _, from := range reached {
			after := g.plainSteps(from)
			if len(after) == 0 {
				return n
			}
			for _, to := range after {
				if !seen[to] {
					seen[to] = true
					next = append(next, to)
				}
			}
		}
		if len(next) == 0 {
			return maxPlain // no text of plain characters leads to a state that was not seen
		}
		reached = next
	}
	return maxPlain
}

// plainSteps returns the states to which plain characters lead, or none if a plain
// character is not allowed.
func (g *Grammar) plainSteps(s *state) []*state {
	if s.known {
		return s.afterPlain
	}
	var after []*state
	for _, sequence := range plainBytes {
		level := []*state{s}
		for _, r := range sequence {
			var next []*state
			for _, from := range level {
				for b := int(r.lo); b <= int(r.hi); b++ {
					to := g.step(from, byte(b))
					if to == dead {
						if !g.stacks.exhausted() {
							s.known = true
						}
						return nil
					}
					if !slices.Contains(next, to) {
						next = append(next, to)
					}
				}
			}
			level = next
		}
		for _, to := range level {
			if !slices.Contains(after, to) {
				after = append(after, to)
			}
		}
	}
	s.afterPlain, s.known = after, true
	return after
}
