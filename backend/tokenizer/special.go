package tokenizer

import (
	"cmp"
	"slices"
	"strings"
)

// specials finds the spellings of special tokens in a text.
type specials struct {
	ids     map[string]int32
	lengths []int // of the spellings, each once, in bytes
	first   [256]bool
	trims   bool // white space after a token goes with it
}

// keepsSpace are the special tokens of Phi-3 that leave white space alone.
var keepsSpace = map[string]bool{"<unk>": true, "<s>": true, "<|endoftext|>": true}

// trimsSpace reports whether special tokens swallow the white space after them.
// Phi-3's tokenizer file says so token by token ("rstrip"); GGUF has no place
// for that, so llama.cpp goes by the model's name, and so does this.
func trimsSpace(modelName string) bool {
	name := strings.ToLower(modelName)
	return strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
}

func newSpecials(v *vocabulary, types ...tokenType) specials {
	s := specials{ids: make(map[string]int32)}
	for id, text := range v.texts {
		if text == "" || !slices.Contains(types, v.types[id]) {
			continue
		}
		s.ids[text] = int32(id)
		s.first[text[0]] = true
		if !slices.Contains(s.lengths, len(text)) {
			s.lengths = append(s.lengths, len(text))
		}
	}
	return s
}

// match is a special token at text[start:end].
type match struct {
	start, end int
	id         int32
}

// find returns what is found, in the order of the text. Where spellings
// overlap, the longer one wins, then the lower id, then the earlier place, as
// if the text were searched for one token after the other.
func (s *specials) find(text string) []match {
	var all []match
	overlap := false
	for i := range len(text) {
		if !s.first[text[i]] {
			continue
		}
		for _, n := range s.lengths {
			if n > len(text)-i {
				continue
			}
			if id, ok := s.ids[text[i:i+n]]; ok {
				overlap = overlap || len(all) > 0 && i < all[len(all)-1].end
				all = append(all, match{i, i + n, id})
			}
		}
	}
	if !overlap {
		return s.trim(all, text)
	}
	slices.SortFunc(all, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.end-b.start, a.end-a.start), cmp.Compare(a.id, b.id), cmp.Compare(a.start, b.start))
	})
	taken := make([]bool, len(text))
	kept := all[:0]
	for _, m := range all {
		// Whatever was taken is at least as long, so it covers an end of m if
		// it touches m at all.
		if taken[m.start] || taken[m.end-1] {
			continue
		}
		for i := m.start; i < m.end; i++ {
			taken[i] = true
		}
		kept = append(kept, m)
	}
	slices.SortFunc(kept, func(a, b match) int { return cmp.Compare(a.start, b.start) })
	return s.trim(kept, text)
}

// trim makes the matches longer by the white space after them, where the model
// wants that.
func (s *specials) trim(found []match, text string) []match {
	if !s.trims {
		return found
	}
	for i := range found {
		m := &found[i]
		if keepsSpace[text[m.start:m.end]] {
			continue
		}
		limit := len(text)
		if i+1 < len(found) {
			limit = found[i+1].start
		}
		m.end = limit - len(strings.TrimLeft(text[m.end:limit], " \t\n\v\f\r"))
	}
	return found
}
