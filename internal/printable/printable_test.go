package printable_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/internal/printable"
)

func TestEscapesAndLineBreaksAreShownNotSent(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"Qwen2.5 0.5B, größer 量":          "Qwen2.5 0.5B, größer 量",
		"a\x1b[2J\x1b]0;title\a":          `a\x1b[2J\x1b]0;title\a`,
		"x\nerror: forged\r\n":            `x\nerror: forged\r\n`,
		"\u009b31m":                       `\u009b31m`,
		"\u202egnp.exe":                   `\u202egnp.exe`,
		"bad \xff\xc3 bytes \ufffd is ok": `bad \xff\xc3 bytes ` + "\ufffd is ok",
		"\u2028\u00a0\x7f":                `\u2028\u00a0\x7f`,
		`it's a back\slash "quoted"`:      `it's a back\slash "quoted"`,
	} {
		require.Equal(t, want, printable.Line(text))
	}
	for text, want := range map[string]string{
		"a\n\tb\x1b[0m":            "a\n\tb\\x1b[0m",
		"\u202ea\u2066b\u061c":     `\u202ea\u2066b\u061c`,
		"15\u00a0€, می\u200cخواهم": "15\u00a0€, می\u200cخواهم",
		"👩\u200d💻\r":               "👩\u200d💻\\r",
	} {
		require.Equal(t, want, printable.Text(text))
	}
}

// FuzzLine checks that nothing reaches a terminal but printable characters, and that
// printable text and text that was escaped once do not change.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{"", "plain", "\x1b]52;c;aGk=\a", "a\nb", "\xf0\x9f", "👩‍💻", "'", "\u202e", "\x80", "\ufffd"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line, block := printable.Line(text), printable.Text(text)
		require.True(t, utf8.ValidString(line))
		require.Equal(t, -1, strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", line)
		require.Equal(t, line, printable.Line(line))
		require.Equal(t, strings.Count(text, "\n"), strings.Count(block, "\n"))
		require.Equal(t, line, printable.Line(block))
		require.Equal(t, -1, strings.IndexFunc(block, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }), "%q", block)
		if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
			require.Equal(t, text, line)
		}
	})
}

func ExampleLine() {
	fmt.Println(printable.Line("model\x1b[2J\nok: all tests passed"))
	// Output: model\x1b[2J\nok: all tests passed
}
