package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// pieces holds the bytes of all tokens in sequence.
type pieces struct {
	bytes []byte
	ends  []int // by id
}

// newPieces builds the pieces. piece appends a token's bytes, depending on the
// kind of tokenizer.
func newPieces(v *vocabulary, piece func(b []byte, text string, t tokenType) []byte) pieces {
	p := pieces{ends: make([]int, len(v.texts))}
	for id, text := range v.texts {
		switch t := v.types[id]; t {
		case typeControl, typeUnknown, typeUserDefined:
			p.bytes = append(p.bytes, text...)
		case typeUnused:
		default:
			p.bytes = piece(p.bytes, text, t)
		}
		p.ends[id] = len(p.bytes)
	}
	return p
}

func sentencePiecePiece(b []byte, text string, t tokenType) []byte {
	if t == typeByte {
		if value, ok := byteToken(text); ok {
			return append(b, value)
		}
	}
	return append(b, strings.ReplaceAll(text, blank, " ")...)
}

func bytePairPiece(b []byte, text string, _ tokenType) []byte {
	for _, r := range text {
		if value, ok := runeByte(r); ok {
			b = append(b, value)
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

// Piece returns the bytes that a token adds to the output. A character may be
// spread over several tokens. Control and unknown tokens, and ids outside the
// vocabulary, add nothing. The caller must not change the slice.
func (t *Tokenizer) Piece(id int32) []byte {
	if id >= 0 && int(id) < len(t.vocab.types) {
		if typ := t.vocab.types[id]; typ == typeControl || typ == typeUnknown {
			return nil
		}
	}
	return t.PieceSpecial(id)
}

// PieceSpecial is [Tokenizer.Piece] with the spelling of control tokens, for
// callers that preserve some of them.
func (t *Tokenizer) PieceSpecial(id int32) []byte {
	if id < 0 || int(id) >= len(t.pieces.ends) {
		return nil
	}
	start := 0
	if id > 0 {
		start = t.pieces.ends[id-1]
	}
	end := t.pieces.ends[id]
	return t.pieces.bytes[start:end:end]
}

// Decode returns the text of tokens without control tokens. It may begin or end
// within a character.
func (t *Tokenizer) Decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.Write(t.Piece(id))
	}
	return b.String()
}

// DecodeSpecial is [Tokenizer.Decode] with the spelling of control tokens, so
// that encoding the text with ParseSpecial finds them again.
func (t *Tokenizer) DecodeSpecial(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.Write(t.PieceSpecial(id))
	}
	return b.String()
}
