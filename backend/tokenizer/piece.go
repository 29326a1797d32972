package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// pieces holds the bytes of all tokens one after the other.
type pieces struct {
	bytes []byte
	ends  []int // by id
}

// newPieces asks the kind of tokenizer how it writes each token.
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

// Piece returns what a token adds to the output: bytes, since a character may
// be spread over tokens. Control and unknown tokens add nothing, nor does an id
// outside the vocabulary. The slice is the Tokenizer's; do not change it.
func (t *Tokenizer) Piece(id int32) []byte {
	if id >= 0 && int(id) < len(t.vocab.types) {
		if typ := t.vocab.types[id]; typ == typeControl || typ == typeUnknown {
			return nil
		}
	}
	return t.PieceSpecial(id)
}

// PieceSpecial is [Tokenizer.Piece] with control tokens spelled out, as callers
// want who asked for some to be preserved.
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

// Decode returns the text of tokens as a user sees it, without control tokens.
// It may end, or begin, within a character.
func (t *Tokenizer) Decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.Write(t.Piece(id))
	}
	return b.String()
}

// DecodeSpecial is [Tokenizer.Decode] with control tokens spelled out, so that
// encoding the text with ParseSpecial finds them again.
func (t *Tokenizer) DecodeSpecial(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.Write(t.PieceSpecial(id))
	}
	return b.String()
}
