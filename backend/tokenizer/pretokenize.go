package tokenizer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"
)

// pretokenizer cuts text into words that byte-pair encoding never joins.
type pretokenizer struct {
	patterns   []*regexp.Regexp // each cuts what the one before has left
	wholeWords bool             // a word that is a token stays whole
	addBOS     bool             // unless the file says otherwise
}

// rule is a pre-tokenizer as data.
type rule struct {
	names              []string // values of tokenizer.ggml.pre
	patterns           []string
	wholeWords, addBOS bool
}

// white is Unicode's white space, to stand in a bracket; Go's \s is ASCII.
const white = `\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}`

// The patterns are those of the models' own tokenizer files. There white space
// ends in `\s+(?!\S)|\s+`: a run of it leaves its last character to the word
// that follows. Go has no lookahead, so here it is a group, the only one, and
// appendCut gives the character back. (Nor is (?i:'s) what is meant: it takes
// the long s.)
const (
	gpt2Words = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^` + white + `\p{L}\p{N}]+|([` + white + `]+)`

	wordsHead = `'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|`
	wordsTail = `| ?[^` + white + `\p{L}\p{N}]+[\r\n]*|[` + white + `]*[\r\n]+|([` + white + `]+)`
)

var rules = []rule{
	{names: []string{"default"}, patterns: []string{`[\p{P}$+<=>^~|]+`, gpt2Words, `\p{N}+`, `[0-9][0-9][0-9]`}},
	{names: []string{"gpt-2"}, patterns: []string{gpt2Words}},
	{names: []string{"smollm"}, patterns: []string{`\p{N}`, gpt2Words}},
	{names: []string{"qwen2"}, patterns: []string{wordsHead + `\p{N}` + wordsTail}},
	{
		names: []string{"llama-bpe", "llama3", "llama-v3"}, patterns: []string{wordsHead + `\p{N}{1,3}` + wordsTail},
		wholeWords: true, addBOS: true,
	},
}

func newPretokenizer(name string) (pretokenizer, error) {
	i := slices.IndexFunc(rules, func(r rule) bool { return slices.Contains(r.names, name) })
	if i < 0 {
		return pretokenizer{}, fmt.Errorf("tokenizer: pre-tokenizer %q: %w", name, errors.ErrUnsupported)
	}
	p := pretokenizer{wholeWords: rules[i].wholeWords, addBOS: rules[i].addBOS}
	for _, pattern := range rules[i].patterns {
		p.patterns = append(p.patterns, regexp.MustCompile(pattern))
	}
	return p, nil
}

// split returns the words of a text; together they are the text.
func (p pretokenizer) split(text string) []string {
	words := []string{text}
	for _, pattern := range p.patterns {
		var cut []string
		for _, w := range words {
			cut = appendCut(cut, w, pattern)
		}
		words = cut
	}
	return words
}

// appendCut appends the matches of a pattern and what lies between them.
func appendCut(words []string, text string, pattern *regexp.Regexp) []string {
	for len(text) > 0 {
		m := pattern.FindStringSubmatchIndex(text)
		if m == nil {
			return append(words, text)
		}
		start, end := m[0], m[1]
		if len(m) > 2 && m[2] >= 0 && end < len(text) {
			// White space before a word: the last character belongs to it,
			// unless there is no other.
			if _, n := utf8.DecodeLastRuneInString(text[start:end]); n < end-start {
				end -= n
			}
		}
		if start > 0 {
			words = append(words, text[:start])
		}
		words = append(words, text[start:end])
		text = text[end:]
	}
	return words
}
