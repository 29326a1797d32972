// Package golden runs golden scripts in tests: text files with commands and, below
// "----", the output that each command must print. Run the test with -update to
// rewrite the output.
//
// An empty line ends a command with its output. Parts that begin with # are comments.
// A command is a line of words, and can have more lines below it:
//
//	plan switch prompt=8
//	----
//	  0-4   NPU  chunk 0 block 0 prefill
//
// The package parses scripts and compares outputs; each test brings its own commands.
// Only tests import it. It keeps no state but the flag.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected output of golden scripts")

// Command is one command of a script.
type Command struct {
	Name     string
	Operands []string          // the words without "="
	Values   map[string]string // of the words key=value
	Lines    []string          // below the first line
}

// Parse parses the text of a command, without its output.
func Parse(text string) Command {
	lines := strings.Split(text, "\n")
	c := Command{Values: map[string]string{}, Lines: lines[1:]}
	for i, word := range strings.Fields(lines[0]) {
		switch key, value, isValue := strings.Cut(word, "="); {
		case i == 0:
			c.Name = word
		case isValue:
			c.Values[key] = value
		default:
			c.Operands = append(c.Operands, word)
		}
	}
	return c
}

// Int returns the number of a key, or otherwise if the command does not have the key.
func (c Command) Int(t testing.TB, key string, otherwise int) int {
	t.Helper()
	text, ok := c.Values[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s %s=%s: want a number", c.Name, key, text)
	}
	return n
}

// Run runs the scripts that match a pattern, each as a subtest. It calls start once for
// each script, and the returned function for each command.
func Run(t *testing.T, pattern string, start func() func(*testing.T, Command) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no script matches %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(want), start())
			switch {
			case got == string(want):
			case *update:
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s: run with -update to accept the new output:\n%s", file, difference(string(want), got))
			}
		})
	}
}

// replay returns a script with the output that its commands have now.
func replay(t *testing.T, script string, run func(*testing.T, Command) string) string {
	parts := strings.Split(strings.TrimSpace(script), "\n\n")
	for i, part := range parts {
		if strings.HasPrefix(part, "#") {
			continue
		}
		text, _, _ := strings.Cut(part, "\n----")
		parts[i] = text + "\n----\n" + run(t, Parse(text))
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// difference returns the lines that differ, from the first to the last one.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	first := 0
	for first < min(len(w), len(g)) && w[first] == g[first] {
		first++
	}
	for len(w) > first && len(g) > first && w[len(w)-1] == g[len(g)-1] {
		w, g = w[:len(w)-1], g[:len(g)-1]
	}
	return "line " + strconv.Itoa(first+1) + ", want:\n" + strings.Join(w[first:], "\n") + "\ngot:\n" + strings.Join(g[first:], "\n")
}
