package llamaserver

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/dialogues")

// TestDialogues runs the scripts in testdata/dialogues. A script contains
// directives for the model (@state, @pieces, @fail, @context), requests (">>> METHOD
// path" and a body), and their effects: the model's request ("???"), the answer
// ("<<<") and the printed lines ("!!!").
func TestDialogues(t *testing.T) {
	files, err := filepath.Glob("testdata/dialogues/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			require.NoError(t, err)
			played := play(t, string(script))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(played), 0o600))
				return
			}
			require.Equal(t, string(script), played)
		})
	}
}

// play sends the requests of a script to a server, and returns the script with the effects
// that the requests had.
func play(t *testing.T, script string) string {
	s, url, out := start(t, 1)
	m := &fakeModel{}
	s.SetModel(m)
	var b, body strings.Builder
	request, skip := "", false
	ask := func() {
		if request == "" {
			return
		}
		method, path, _ := strings.Cut(request, " ")
		before, heard := len(m.seen), len(out.all())
		b.WriteString(talk(t, method, url+path, strings.TrimSpace(body.String())))
		for _, r := range m.seen[before:] {
			saw, err := json.Marshal(r)
			require.NoError(t, err)
			fmt.Fprintf(&b, "??? %s\n", saw)
		}
		for _, line := range out.all()[heard:] {
			b.WriteString("!!! " + line)
		}
		b.WriteString("\n")
		request = ""
		body.Reset()
	}
	for _, line := range strings.SplitAfter(script, "\n") {
		word, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		switch {
		case word == ">>>":
			ask()
			request, skip = rest, false
			b.WriteString(line)
		case word == "<<<" || word == "???" || word == "!!!":
			skip = true
		case strings.HasPrefix(word, "@") || word == "#":
			ask()
			skip = false
			b.WriteString(line)
			direct(t, s, m, word, rest)
		case skip:
		case request != "":
			if strings.TrimSpace(line) != "" {
				b.WriteString(line)
				body.WriteString(line)
			}
		default:
			b.WriteString(line)
		}
	}
	ask()
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func direct(t *testing.T, s *Server, m *fakeModel, word, rest string) {
	switch word {
	case "#":
	case "@state":
		switch rest {
		case "loading":
			s.SetModel(nil)
		case "failed":
			s.SetFailed(errors.New("blk.3.ffn_up.weight has type IQ2_XS, which sdnpu does not read"))
		default:
			s.SetModel(m)
		}
	case "@pieces":
		var texts []string
		require.NoError(t, json.Unmarshal([]byte(rest), &texts))
		m.pieces, m.fail = texted(texts...), nil
	case "@fail":
		m.fail = errors.New(rest)
	case "@context":
		_, err := fmt.Sscan(rest, &m.context)
		require.NoError(t, err)
	default:
		t.Fatalf("unknown directive %s", word)
	}
}

// changing matches the parts of an answer that differ in each run: names of answers
// and times of their creation.
var changing = regexp.MustCompile(`("id":"[a-z]+[-_]|"created(?:_at)?":)[A-Z0-9]+`)

func talk(t *testing.T, method, url, body string) string {
	response, answer, err := exchange(t, method, url, []byte(body))
	end := ""
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		end = "<<< connection broken\n"
	default:
		require.NoError(t, err)
	}
	text := changing.ReplaceAllString(strings.TrimRight(string(answer), "\n"), "$1")
	return fmt.Sprintf("<<< %d %s\n%s\n%s", response.StatusCode, response.Header.Get("Content-Type"), text, end)
}
