package tokenizer

import (
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"unicode/utf8"
)

// pretokenizer splits text into words. Byte-pair encoding joins bytes only within a
// word.
type pretokenizer struct {
	patterns   []*regexp.Regexp // each pattern splits the parts that the earlier patterns have left whole
	wholeWords bool             // wholeWords is set if a word that is a token is never split
	addBOS     bool             // if no key of the file decides, addBOS tells whether BOS is added
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

// words returns the words of a text in order, one at a time. Together the words of a text
// are the whole text. words returns no list, because a list of all words would take more
// memory than the text.
func (p pretokenizer) words(text string) iter.Seq[string] {
	return func(yield func(string) bool) { cut(text, p.patterns, yield) }
}

// cut passes the words of a text to yield. The first pattern cuts the text into its
// matches and the parts between them, and the other patterns cut these further. If yield
// returns false, cut stops and returns false.
func cut(text string, patterns []*regexp.Regexp, yield func(string) bool) bool {
	if len(patterns) == 0 {
		return text == "" || yield(text)
	}
	pattern, others := patterns[0], patterns[1:]
	for len(text) > 0 {
		m := pattern.FindStringSubmatchIndex(text)
		if m == nil {
			return cut(text, others, yield)
		}
		start, end := m[0], m[1]
		if len(m) > 2 && m[2] >= 0 && end < len(text) {
			// If a match is white space before a word, the last character of the match belongs to
			// the word, unless the match has only one character.
			if _, n := utf8.DecodeLastRuneInString(text[start:end]); n < end-start {
				end -= n
			}
		}
		if !cut(text[:start], others, yield) || !cut(text[start:end], others, yield) {
			return false
		}
		text = text[end:]
	}
	return true
}
