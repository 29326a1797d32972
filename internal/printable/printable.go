// Package printable makes text of unknown origin safe to show on a terminal and in a
// log line.
//
// Names in model files, texts of a database and file names can contain escape
// sequences, which change a terminal's state, and line breaks, which forge lines. All
// places that print such text call this package. It keeps no state.
package printable

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Line returns text as one line without control characters. Each character that is
// not printable, such as an escape, a line break or a mark that reverses the writing
// direction, becomes its Go escape (\x1b, \n, \u202e). Printable text is unchanged.
func Line(text string) string { return escape(text, "") }

// Text returns text like [Line], but keeps line breaks and tabs.
func Text(text string) string { return escape(text, "\n\t") }

func escape(text, keep string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\x` + hex(text[0]))
		case strconv.IsPrint(r) || strings.ContainsRune(keep, r):
			b.WriteString(text[:n])
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[n:]
	}
	return b.String()
}

func hex(b byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[b>>4], digits[b&15]})
}
