package tokenizer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"
)

// pretokenizer splits text into words that byte-pair encoding never joins.
type pretokenizer struct {
	patterns   []*regexp.Regexp // each splits the rest that the one before has left
	wholeWords bool             // a word that is a token is not split
	addBOS     bool             // unless the file says otherwise
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

// split returns the words of a text. Together they are the text.
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

// appendCut appends the matches of a pattern and the text between them.
func appendCut(words []string, text string, pattern *regexp.Regexp) []string {
	for len(text) > 0 {
		m := pattern.FindStringSubmatchIndex(text)
		if m == nil {
			return append(words, text)
		}
		start, end := m[0], m[1]
		if len(m) > 2 && m[2] >= 0 && end < len(text) {
			// White space before a word: its last character belongs to the
			// word, unless it is the only one.
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
