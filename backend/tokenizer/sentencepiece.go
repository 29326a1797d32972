package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sdnpu/sdnpu/backend/gguf"
)

// blank is SentencePiece's spelling of a blank.
const blank = "▁"

// sentencePiece joins characters, the highest score first.
type sentencePiece struct {
	vocab       *vocabulary
	scores      []float32
	bytes       [256]int32 // tokens of single bytes, or None
	spacePrefix bool       // texts begin with a blank
}

func newSentencePiece(f *gguf.File, v *vocabulary) (*sentencePiece, error) {
	scores, err := f.Floats("tokenizer.ggml.scores")
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if len(scores) != len(v.texts) {
		return nil, fmt.Errorf("%w: %d tokens, %d scores", ErrVocabulary, len(v.texts), len(scores))
	}
	prefix, err := f.Bool("tokenizer.ggml.add_space_prefix", true)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	sp := &sentencePiece{vocab: v, scores: make([]float32, len(scores)), spacePrefix: prefix}
	for i, s := range scores {
		sp.scores[i] = float32(s)
	}
	for b := range sp.bytes {
		sp.bytes[b] = None
	}
	for id, text := range v.texts {
		if b, ok := byteToken(text); ok && v.types[id] == typeByte {
			sp.bytes[b] = int32(id)
		}
	}
	v.unk, v.bos, v.eos, v.addBOS = v.checked(0), v.checked(1), v.checked(2), true
	return sp, nil
}

// byteToken returns the byte of a spelling such as "<0x0A>".
func byteToken(text string) (b byte, ok bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[3:5], 16, 8)
	return byte(n), err == nil
}

func (sp *sentencePiece) encode(ids []int32, text string, first bool) []int32 {
	if first && sp.spacePrefix {
		text = " " + text
	}
	text = strings.ReplaceAll(text, " ", blank)
	m := merger{symbols: make([]symbol, 0, len(text))}
	m.pair = func(left, right symbol) (float32, int32, bool) {
		id := sp.vocab.id(text[left.start:right.end])
		if id == None {
			return 0, None, false
		}
		return -sp.scores[id], id, true
	}
	for pos := 0; pos < len(text); {
		_, n := utf8.DecodeRuneInString(text[pos:])
		m.add(n, sp.vocab.id(text[pos:pos+n]))
		pos += n
	}
	m.run()
	for i := int32(0); i >= 0; i = m.symbols[i].next {
		s := m.symbols[i]
		if s.id != None {
			ids = append(ids, s.id)
			continue
		}
		ids = sp.spell(ids, text[s.start:s.end])
	}
	return ids
}

// spell appends a character that is not a token, byte by byte.
func (sp *sentencePiece) spell(ids []int32, char string) []int32 {
	for i := range len(char) {
		switch id := sp.bytes[char[i]]; {
		case id != None:
			ids = append(ids, id)
		case sp.vocab.unk != None:
			return append(ids, sp.vocab.unk) // one for the whole character
		}
	}
	return ids
}
