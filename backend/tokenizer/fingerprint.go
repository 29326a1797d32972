package tokenizer

import (
	"crypto/sha256"
	"encoding/binary"
)

// Fingerprint returns a hash of the vocabulary: the text and the type of every token,
// in order of ids. Models with equal fingerprints can share stored tokens, for example
// in a token database.
func (t *Tokenizer) Fingerprint() (sum [32]byte) {
	h := sha256.New()
	var b []byte
	for id, text := range t.vocab.texts {
		b = binary.LittleEndian.AppendUint32(b[:0], uint32(len(text)))
		b = append(append(b, byte(t.vocab.types[id])), text...)
		h.Write(b)
	}
	h.Sum(sum[:0])
	return sum
}
