package tokenizer

import "slices"

// Split cuts a text into words by the rules of the pre-tokenizer with the given name.
func Split(name, text string) ([]string, error) {
	p, err := newPretokenizer(name)
	if err != nil {
		return nil, err
	}
	return slices.Collect(p.words(text)), nil
}

// PretokenizerNames returns the first name of each rule.
func PretokenizerNames() (names []string) {
	for _, r := range rules {
		names = append(names, r.names[0])
	}
	return names
}
