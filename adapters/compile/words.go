package compile

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// longestLine bounds what is kept of a line.
const longestLine = 500

// words reads a child's stderr: it logs the lines, remembers the last and the
// one that tells of a crash. Go's runtime writes pages behind that.
type words struct {
	logger  *slog.Logger
	mu      sync.Mutex
	partial []byte
	lastOne string
	crash   string
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.partial = append(w.partial, p...)
	for {
		line, rest, found := bytes.Cut(w.partial, []byte("\n"))
		if !found {
			if len(w.partial) > longestLine {
				w.line(w.partial)
				w.partial = w.partial[:0]
			}
			return len(p), nil
		}
		w.line(line)
		w.partial = append(w.partial[:0], rest...)
	}
}

// crashes are how the line begins that says why a process ends.
var crashes = []string{"SIG", "fatal error: ", "panic: ", "unexpected fault address", "error: "}

func (w *words) line(raw []byte) {
	text := strings.TrimSpace(string(raw[:min(len(raw), longestLine)]))
	if text == "" {
		return
	}
	w.logger.Debug("compiling", "text", text)
	if w.crash != "" {
		return
	}
	for _, prefix := range crashes {
		if strings.HasPrefix(text, prefix) {
			w.crash = text
			return
		}
	}
	w.lastOne = text
}

// last is what the child said last, as the end of a sentence.
func (w *words) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lastOne == "" {
		return ""
	}
	return fmt.Sprintf(", its last words %q", w.lastOne)
}

// cause is why the process ended: its own words, or how the system saw it.
func (w *words) cause(ended error) string {
	w.mu.Lock()
	crash := w.crash
	w.mu.Unlock()
	switch {
	case crash == "" && ended == nil:
		crash = "it ended without an answer"
	case crash == "" && strings.Contains(ended.Error(), "signal: killed"):
		crash = "it was killed, as a system does that is short of memory"
	case crash == "":
		crash = ended.Error()
	}
	return crash + w.last()
}
