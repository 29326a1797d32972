package tokenizer

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
)

// specials finds the spellings of special tokens in a text.
type specials struct {
	ids       map[string]int32
	spellings []spelling // sorted by text
	first     [256]bool
	trims     bool // white space after a token goes with it
}

// spelling is how a token is written. Its shorter is the place of the longest
// other one that it begins with, or -1.
type spelling struct {
	text        string
	id, shorter int32
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
	}
	for text, id := range s.ids {
		s.spellings = append(s.spellings, spelling{text: text, id: id})
	}
	slices.SortFunc(s.spellings, func(a, b spelling) int { return cmp.Compare(a.text, b.text) })
	for i := range s.spellings {
		sp := &s.spellings[i] // what it begins with ends or begins the one before it
		for sp.shorter = int32(i) - 1; sp.shorter >= 0; sp.shorter = s.spellings[sp.shorter].shorter {
			if strings.HasPrefix(sp.text, s.spellings[sp.shorter].text) {
				break
			}
		}
	}
	return s
}

// longest is the place of the longest spelling that a text begins with, or -1.
func (s *specials) longest(text string) int32 {
	n, found := slices.BinarySearchFunc(s.spellings, text, func(sp spelling, text string) int { return cmp.Compare(sp.text, text) })
	if found {
		return int32(n)
	}
	if n == 0 {
		return -1
	}
	// It is the one before, as far as that agrees with the text.
	same, before := 0, s.spellings[n-1].text
	for same < len(before) && same < len(text) && before[same] == text[same] {
		same++
	}
	at := int32(n - 1)
	for at >= 0 && len(s.spellings[at].text) > same {
		at = s.spellings[at].shorter
	}
	return at
}

// match is a special token at text[start:end].
type match struct {
	start, end int
	id         int32
}

// found is a match and the place of its spelling.
type found struct {
	match
	spelling int32
}

func (s *specials) at(start int, spelling int32) found {
	sp := &s.spellings[spelling]
	return found{match{start, start + len(sp.text), sp.id}, spelling}
}

// rivals is a heap of matches, the one first that wins.
type rivals []found

func (r rivals) Len() int { return len(r) }

func (r rivals) Less(i, j int) bool {
	a, b := r[i], r[j]
	return cmp.Or(cmp.Compare(b.end-b.start, a.end-a.start), cmp.Compare(a.id, b.id), cmp.Compare(a.start, b.start)) < 0
}

func (r rivals) Swap(i, j int) { r[i], r[j] = r[j], r[i] }

func (r *rivals) Push(f any) { *r = append(*r, f.(found)) }

func (r *rivals) Pop() any {
	last := len(*r) - 1
	f := (*r)[last]
	*r = (*r)[:last]
	return f
}

// find returns what is found, in the order of the text. Where spellings
// overlap, the longer one wins, then the lower id, then the earlier place, as
// if the text were searched for one token after the other.
func (s *specials) find(text string) []match {
	var all rivals // the longest match of each place
	overlap := false
	for i := range len(text) {
		if !s.first[text[i]] {
			continue
		}
		if longest := s.longest(text[i:]); longest >= 0 {
			overlap = overlap || len(all) > 0 && i < all[len(all)-1].end
			all = append(all, s.at(i, longest))
		}
	}
	var kept []match
	if !overlap {
		for _, f := range all {
			kept = append(kept, f.match)
		}
		return s.trim(kept, text)
	}
	heap.Init(&all)
	taken := make([]bool, len(text))
	for len(all) > 0 {
		f := heap.Pop(&all).(found)
		switch {
		// Whatever was taken is at least as long, so it covers an end of the
		// match if it touches it at all.
		case taken[f.start]:
		case taken[f.end-1]:
			if s.shorten(&f, taken) {
				heap.Push(&all, f)
			}
		default:
			for i := f.start; i < f.end; i++ {
				taken[i] = true
			}
			kept = append(kept, f.match)
		}
	}
	slices.SortFunc(kept, func(a, b match) int { return cmp.Compare(a.start, b.start) })
	return s.trim(kept, text)
}

// shorten makes a match the next shorter one at its place whose end is free.
func (s *specials) shorten(f *found, taken []bool) bool {
	for taken[f.end-1] {
		shorter := s.spellings[f.spelling].shorter
		if shorter < 0 {
			return false
		}
		*f = s.at(f.start, shorter)
	}
	return true
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
