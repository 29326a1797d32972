package grammar

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ollamaJSON is the grammar that Ollama sends for format: "json".
const ollamaJSON = `
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
         string ":" ws value
    ("," ws string ":" ws value)*
  )? ws "}"
array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? ws "]"
string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F]) # escapes
  )* "\""
number ::= ("-"? ([0-9] | [1-9] [0-9]*)) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= ([ \t\n] ws)?
`

// reads reports whether a grammar matches a whole text.
func reads(t testing.TB, grammar, text string) bool {
	g, err := ParseGBNF(grammar)
	require.NoError(t, err)
	return readsAll(g, text)
}

func readsAll(g *Grammar, text string) bool {
	m := g.NewMatcher(testVocabulary())
	return (text == "" || m.AcceptBytes([]byte(text))) && m.Final()
}

func TestGrammarsMatchTheirTexts(t *testing.T) {
	for _, tt := range []struct {
		name, grammar string
		good, bad     []string
	}{
		{"json", ollamaJSON, []string{`{}`, `{ "a": [1, 2.5e-3, {"b": null}]}`, "{\n}", `{"\u00e9\"": "é"}`}, []string{``, `[]`, `{"a"}`, `{"a":01}`, `{"a":1,}`, "{\"\n\":1}"}},
		{"alternatives", `root ::= "a" | [bdx-z] | [^1-3]`, []string{"a", "y", "4", "é"}, []string{"1", "2", "ab", ""}},
		{"repetitions", `root ::= "a"{2} "b"{1,} "c"{0,2} "d"* "e"+ "f"?`, []string{"aabe", "aabbbccddeef"}, []string{"abe", "aae", "aabccce", "aabeff"}},
		{"repeated text", `root ::= "ab"{2,3}`, []string{"abab", "ababab"}, []string{"abb", "ab", "abababab"}},
		{"any", `root ::= . "x" .`, []string{"\nx€"}, []string{"x", "axx€"}},
		{"escapes", `root ::= "\x41\u00e9\U0001F600\t\r\n\\\"\[\]"`, []string{"Aé😀\t\r\n\\\"[]"}, []string{"A"}},
		{"class escapes", `root ::= [\]\\\-^a-] [^\x00-\x1F\n]`, []string{"]a", "\\é", "-b", "^c", "a-"}, []string{"b", "]\n"}},
		{"dash at the end", `root ::= [+-]`, []string{"+", "-"}, []string{","}},
		{"comments and lines", "# start\nroot ::= # the root\n  \"a\" |\n  # or\n  \"b\" (\n \"c\"\n )\n\n\nx-1 ::= root\r\n", []string{"a", "bc"}, []string{"b"}},
		{"empty alternatives", `root ::= ("a" | ) | "b"`, []string{"", "a", "b"}, []string{"ab"}},
		{"right recursion", "root ::= \"a\" root | \"\"", []string{"", strings.Repeat("a", 5000)}, []string{"b"}},
		{"nesting", "root ::= \"(\" root \")\" | \"\"", []string{"", "((()))"}, []string{"(", "())"}},
		{"empty loops", `root ::= ("a"? ("b"*)*)* "c"`, []string{"c", "abbaac"}, []string{"", "ca"}},
		{"palindromes", `root ::= "a" root "a" | "b" root "b" | "a" | "b" | ""`, []string{"abba", "ababa", "aabaa"}, []string{"ab", "abb"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, text := range tt.good {
				require.True(t, reads(t, tt.grammar, text), "%q", text)
			}
			for _, text := range tt.bad {
				require.False(t, reads(t, tt.grammar, text), "%q", text)
			}
		})
	}
}

func TestSyntaxErrorsNameThePlace(t *testing.T) {
	for _, tt := range []struct {
		grammar      string
		line, column int
		reason       string
	}{
		{"", 1, 1, `no rule named "root"`},
		{"root = \"a\"", 1, 6, `found '=': want "::="`},
		{"root ::= \"a", 1, 10, "no closing"},
		{"root ::= [a", 1, 10, "no closing"},
		{"root ::= (\"a\"", 1, 14, `want ")"`},
		{"root ::= \"é\" x)", 1, 15, "found ')'"},
		{"root ::= a\n\nb ::= \"c\"", 1, 10, `"a" is not defined`},
		{"root ::= \"a\"\nroot ::= \"b\"", 2, 1, "defined twice"},
		{"root ::= *", 1, 10, "repeats nothing"},
		{"root ::= \"a\"{3,1}", 1, 13, "maximum below"},
		{"root ::= \"a\"{,1}", 1, 14, "want a number"},
		{"root ::= \"a\"{2001}", 1, 14, "too large"},
		{"root ::= \"a\"{99999999999999999999}", 1, 14, "too large"},
		{"root ::= \"\\q\"", 1, 11, "unknown escape"},
		{"root ::= \"\\u12g4\"", 1, 11, "4 hexadecimal digits"},
		{"root ::= \"\\uD800\"", 1, 11, "no Unicode character"},
		{"root ::= [z-a]", 1, 11, "ends before it begins"},
		{"root ::= <think>", 1, 10, "not supported"},
		{"root ::= root", 1, 10, "left-recursive"},
		{"root ::= a \"x\"\na ::= b | \"y\"\nb ::= \"\" c? root", 3, 13, "left-recursive"},
		{"root ::= a\na ::= (\"\" | \"b\") a", 2, 18, "left-recursive"},
		{"root ::= \"a\" | \xff", 1, 16, "UTF-8"},
		{"root ::= " + strings.Repeat("(", 200), 1, 110, "nested more than"},
	} {
		if strings.Contains(tt.grammar, " c? ") {
			tt.grammar += "\nc ::= \"d\""
		}
		_, err := ParseGBNF(tt.grammar)
		var wrong *SyntaxError
		require.ErrorAs(t, err, &wrong, tt.grammar)
		require.Contains(t, wrong.Reason, tt.reason, tt.grammar)
		require.Equal(t, []int{tt.line, tt.column}, []int{wrong.Line, wrong.Column}, "%s: %v", tt.grammar, err)
	}
}

func TestHugeGrammarsAreRefusedSoon(t *testing.T) {
	nested := `"a"`
	for range 5 {
		nested = "(" + nested + "){2000}"
	}
	many := strings.Builder{}
	many.WriteString("root ::= r0\n")
	for i := range 9000 {
		fmt.Fprintf(&many, "r%d ::= r%d?\n", i, i+1)
	}
	many.WriteString("r9000 ::= \"a\"")
	for _, grammar := range []string{"root ::= " + nested, "root ::= [" + strings.Repeat("aceg", 5000) + "\U00010000-\U0001FFFF]{2000} ([^é]{2000}){200}", "root ::= \"" + strings.Repeat("a", maxSource) + "\""} {
		_, err := ParseGBNF(grammar)
		require.ErrorIs(t, err, ErrTooComplex)
	}
	require.True(t, reads(t, many.String(), "a"))
}

func TestWorkOfATokenIsBounded(t *testing.T) {
	// TestWorkOfATokenIsBounded reads a text with a grammar that has many nested repetitions
	// with counts. After n bytes of text, a repetition may have matched its part any number of
	// times up to n, and the automaton needs a stack for each of these numbers.
	var b strings.Builder
	b.WriteString("root ::= (r0 | r1)*\n")
	for i := range 100 {
		fmt.Fprintf(&b, "r%d ::= [a-z] (r%d [a-z]{1,40} | r%d [a-y]{2,41} | [a-z]{1,50}) [a-z]{0,60}\n", i, (i*7+1)%100, (i*11+3)%100)
	}
	g, err := ParseGBNF(b.String())
	require.NoError(t, err)
	m := g.NewMatcher(testVocabulary(strings.Repeat("abcdefghijklmnopqrst", 20), "a", "zzzzzzz"))
	accepted := 0
	for m.Accept(0) {
		accepted++
		require.Less(t, accepted, 100, "the grammar is too simple for this test")
	}
	require.ErrorIs(t, m.Err(), ErrTooComplex)
	require.Zero(t, m.Mask().Count())
	require.Less(t, g.cells+g.stacks.size, 2*maxCells)
	again := g.NewMatcher(testVocabulary("a"))
	require.True(t, again.Accept(0), "a new text begins with new work")
}

func TestDeepNestingEnds(t *testing.T) {
	g, err := ParseGBNF(`root ::= "[" root "]" | "x"`)
	require.NoError(t, err)
	m := g.NewMatcher(testVocabulary("[", "]", "x"))
	n := 0
	for m.Allowed(0) {
		require.True(t, m.Accept(0))
		n++
	}
	require.Greater(t, n, maxDepth/2)
	require.True(t, m.Accept(2))
	for range n {
		require.True(t, m.Accept(1))
	}
	require.True(t, m.Final())
}

func FuzzParseGBNF(f *testing.F) {
	f.Add(ollamaJSON, "{\"a\": 1}")
	f.Add("root ::= \"a\"{2,} [^b-d] . (x | )* # c\nx ::= \"\\u00e9\"?", "aaeé")
	f.Add("root ::= root", "")
	f.Fuzz(func(t *testing.T, grammar, text string) {
		g, err := ParseGBNF(grammar)
		if err != nil {
			var wrong *SyntaxError
			if !errors.Is(err, ErrTooComplex) && !errors.As(err, &wrong) {
				t.Fatal(err)
			}
			if wrong != nil && (wrong.Line < 1 || wrong.Column < 1 || wrong.Line > strings.Count(grammar, "\n")+1) {
				t.Fatalf("%v is outside the grammar", err)
			}
			return
		}
		v := testVocabulary("a", "ab", text, "x", "xyz", "\"", "x\"", "é\"a", "\\n", "a\\", "\xc3", "\n", "0123456789abcdef")
		m := g.NewMatcher(v)
		for i := range min(len(text), 30) {
			mask := m.Mask()
			if m.Err() != nil {
				break
			}
			for token := range int32(v.Size()) {
				if c := m.Clone(); mask.Has(token) != c.Accept(token) && c.Err() == nil {
					t.Fatalf("token %d: the mask and Accept disagree", token)
				}
			}
			if !m.AcceptBytes([]byte{text[i]}) {
				break
			}
		}
	})
}
