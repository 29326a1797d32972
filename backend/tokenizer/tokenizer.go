package tokenizer

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/sdnpu/sdnpu/backend/gguf"
)

var (
	// ErrVocabulary is returned when the tokenizer keys of a file contradict
	// each other.
	ErrVocabulary = errors.New("tokenizer: broken vocabulary")
	// ErrTooLong is returned for a text beyond [MaxText].
	ErrTooLong = errors.New("tokenizer: text too long")
)

// MaxText is the longest text that is encoded, in bytes.
const MaxText = 1 << 28

// None stands for a special token that a vocabulary does not have.
const None int32 = -1

// EncodeOptions says how to treat special tokens.
type EncodeOptions struct {
	// AddSpecial adds BOS and EOS where the model wants them.
	AddSpecial bool
	// ParseSpecial turns the spelling of a control token, "<|im_end|>", into
	// that token. Without it the spelling is text like any other; user-defined
	// tokens are recognised either way.
	ParseSpecial bool
}

// Tokenizer is the tokenizer of one model.
type Tokenizer struct {
	vocab  *vocabulary
	plain  specials // what is recognised in any text
	parsed specials // what is recognised with ParseSpecial
	pieces pieces
	encode encoder
}

// encoder appends the ids of a text that holds no special token; first says
// that it begins the sequence or follows a special token.
type encoder interface {
	encode(ids []int32, text string, first bool) []int32
}

// New reads the tokenizer of a model file, which may be closed afterwards. A
// kind of tokenizer or pre-tokenizer that this package does not know is
// [errors.ErrUnsupported], by name.
func New(f *gguf.File) (*Tokenizer, error) {
	model, err := f.Str("tokenizer.ggml.model")
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	v, err := readVocabulary(f)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{vocab: v}
	switch model {
	case "llama":
		t.encode, err = newSentencePiece(f, v)
		t.pieces = newPieces(v, sentencePiecePiece)
	case "gpt2":
		t.encode, err = newBytePair(f, v)
		t.pieces = newPieces(v, bytePairPiece)
	default:
		err = fmt.Errorf("tokenizer: model %q: %w", model, errors.ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	if err := v.readSpecial(f); err != nil {
		return nil, err
	}
	t.plain = newSpecials(v, typeUserDefined)
	t.parsed = newSpecials(v, typeUserDefined, typeControl, typeUnknown)
	name, err := f.Str("general.name", "")
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t.plain.trims = trimsSpace(name)
	t.parsed.trims = t.plain.trims
	return t, nil
}

// Encode returns the ids of a text.
func (t *Tokenizer) Encode(text string, opts EncodeOptions) ([]int32, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("%w: %d bytes, %d are allowed", ErrTooLong, len(text), MaxText)
	}
	ids := make([]int32, 0, len(text)/4+2)
	if opts.AddSpecial && t.vocab.addBOS && t.vocab.bos != None {
		ids = append(ids, t.vocab.bos)
	}
	found := &t.plain
	if opts.ParseSpecial {
		found = &t.parsed
	}
	first, pos := true, 0
	for _, m := range found.find(text) {
		if pos < m.start {
			ids = t.encode.encode(ids, text[pos:m.start], first)
		}
		ids = append(ids, m.id)
		first, pos = true, m.end
	}
	if pos < len(text) {
		ids = t.encode.encode(ids, text[pos:], first)
	}
	if opts.AddSpecial && t.vocab.addEOS && t.vocab.eos != None {
		ids = append(ids, t.vocab.eos)
	}
	return ids, nil
}

// VocabSize returns the number of tokens.
func (t *Tokenizer) VocabSize() int { return len(t.vocab.texts) }

// LongestPiece bounds the bytes of text that one token stands for: no encoding
// of n bytes has fewer than n/LongestPiece tokens. It reads the vocabulary.
func (t *Tokenizer) LongestPiece() int {
	longest := utf8.UTFMax // the unknown token stands for any character
	for _, text := range t.vocab.texts {
		longest = max(longest, len(text)) // spellings are no shorter than what they stand for
	}
	return longest
}

// BOS returns the token that begins a text, or [None].
func (t *Tokenizer) BOS() int32 { return t.vocab.bos }

// EOS returns the token that ends a text, or [None].
func (t *Tokenizer) EOS() int32 { return t.vocab.eos }

// AddBOS reports whether AddSpecial puts a BOS in front.
func (t *Tokenizer) AddBOS() bool { return t.vocab.addBOS && t.vocab.bos != None }

// AddEOS reports whether AddSpecial puts an EOS at the end.
func (t *Tokenizer) AddEOS() bool { return t.vocab.addEOS && t.vocab.eos != None }

// IsEOG reports whether a token ends the generation: EOS, end of turn, end of
// message.
func (t *Tokenizer) IsEOG(id int32) bool { return t.vocab.eog[id] }

// ID returns the id of the token whose spelling in the vocabulary is name, such
// as "<|im_end|>", or [None].
func (t *Tokenizer) ID(name string) int32 {
	if id, ok := t.parsed.ids[name]; ok {
		return id
	}
	return t.vocab.id(name)
}
