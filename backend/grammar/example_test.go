package grammar_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend/grammar"
)

func Example() {
	g, err := grammar.ParseGBNF(`root ::= "{\"ok\":" ("true" | "false") "}"`)
	if err != nil {
		panic(err)
	}
	texts := []string{"{", "{\"", "ok", "\":", "true", "false", "}", "<end>"}
	v := grammar.NewVocabulary(len(texts), func(t int32) []byte { return []byte(texts[t]) }, func(t int32) bool { return t == 7 })
	m := g.NewMatcher(v)
	fmt.Printf("%s\n", m.Forced())
	for _, token := range []int32{1, 2, 3, 5, 6} {
		m.Accept(token)
	}
	only, _ := m.Mask().Only()
	fmt.Println(texts[only])
	// Output:
	// {"ok":
	// <end>
}
