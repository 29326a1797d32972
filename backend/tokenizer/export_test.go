package tokenizer

// Split shows tests how the named pre-tokenizer cuts a text.
func Split(name, text string) ([]string, error) {
	p, err := newPretokenizer(name)
	if err != nil {
		return nil, err
	}
	return p.split(text), nil
}

// PretokenizerNames lists the first name of each rule.
func PretokenizerNames() (names []string) {
	for _, r := range rules {
		names = append(names, r.names[0])
	}
	return names
}
