package integration_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// retiredPhrases must not appear in comments, string literals or documents.
// docs/glossary.md lists the words that replace them.
var retiredPhrases = regexp.MustCompile(`(?i)\b(behind|beside|nobody|somebody|foretold|foretells?|anew|so many|as many as|wanted|is meant|goes on|go on|going on|comes of|is told|are told|at hand|apart|lacks|is what|are what|is how|long graphs?|short graphs?|wide graphs?|narrow graphs?)\b`)

// retiredNames must not appear as identifiers, in upper or lower case.
var retiredNames = regexp.MustCompile(`(?i)^(foretold|foretell|foretelling|g1|g2|rows1|rows2|usable|survives|linger|enteridle|leaveidle|unexceptional|greed|olds|meanwhile|beside|behind|anew|nobody|somebody|trouble|suffer|noroom|habits|emu_whole\w*)$`)

// TestRetiredWordsStayRetired checks each tracked Go, C and Markdown file.
func TestRetiredWordsStayRetired(t *testing.T) {
	out, err := exec.Command("git", "-C", "..", "ls-files", "*.go", "*.c", "*.h", "*.md", "Makefile").Output()
	if err != nil {
		t.Skipf("git does not list the files: %v", err)
	}
	files := strings.Fields(string(out))
	require.Greater(t, len(files), 150, "git lists hardly any file")
	for _, file := range files {
		if exempt(file) {
			continue
		}
		source, err := os.ReadFile(filepath.Join("..", file))
		if os.IsNotExist(err) {
			continue // the file is deleted, and the deletion is not committed yet
		}
		require.NoError(t, err)
		for _, finding := range retiredWords(file, source) {
			t.Errorf("%s:%s", file, finding)
		}
	}
}

// exempt reports whether a file may name the retired words.
func exempt(file string) bool {
	return file == "docs/glossary.md" || file == "integration_test/words_test.go"
}

// retiredWords returns one line for each retired word in a file.
func retiredWords(file string, source []byte) (findings []string) {
	report := func(line int, word string) {
		findings = append(findings, fmt.Sprintf("%d: %q is retired, see docs/glossary.md", line, word))
	}
	switch filepath.Ext(file) {
	case ".go":
		scanGo(source, func(line int, tok token.Token, text string) {
			if tok != token.IDENT {
				if word := retiredPhrases.FindString(text); word != "" {
					report(line, word)
				}
			} else if retiredNames.MatchString(text) {
				report(line, text)
			}
		})
	case ".c", ".h":
		for i, text := range strings.Split(string(source), "\n") {
			for _, word := range identifiers.FindAllString(text, -1) {
				if retiredNames.MatchString(word) {
					report(i+1, word)
				}
			}
			if word := retiredPhrases.FindString(text); word != "" {
				report(i+1, word)
			}
		}
	default:
		for i, text := range strings.Split(string(source), "\n") {
			if word := retiredPhrases.FindString(text); word != "" {
				report(i+1, word)
			}
		}
	}
	return findings
}

var identifiers = regexp.MustCompile(`[A-Za-z_]\w*`)

// scanGo calls visit for each identifier, comment and string literal.
func scanGo(source []byte, visit func(line int, tok token.Token, text string)) {
	var s scanner.Scanner
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(source))
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return
		case token.IDENT, token.COMMENT, token.STRING:
			for i, line := range strings.Split(text, "\n") {
				visit(file.Line(pos)+i, tok, line)
			}
		}
	}
}

func TestRetiredWordsAreFound(t *testing.T) {
	for _, tt := range []struct{ file, source string }{
		{"a.go", "package a\n\n// Run waits beside the loader.\n"},
		{"a.go", "package a\n\nvar s = \"rows=0: 1 to 128 wanted\"\n"},
		{"a.go", "package a\n\nfunc usable() {}\n"},
		{"a.c", "int x; /* the rest is behind it */\n"},
		{"a.c", "#define EMU_WHOLE_U8 1\n"},
		{"a.md", "Nobody has measured it.\n"},
	} {
		require.NotEmpty(t, retiredWords(tt.file, []byte(tt.source)), tt.source)
	}
	require.Empty(t, retiredWords("a.go", []byte("package a\n\n// load opens an image and returns its program.\nfunc load() {}\n")))
}
