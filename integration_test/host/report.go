package host

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Fields are the values of a line that our program logs.
type Fields map[string]string

// Number reads a field; one that is absent or no number is an error.
func (f Fields) Number(name string) (float64, error) {
	n, err := strconv.ParseFloat(f[name], 64)
	if err != nil {
		return 0, fmt.Errorf("host: %s: %w", name, err)
	}
	return n, nil
}

// The kinds of line with fields.
const (
	// LoadingLine tells how far a load is.
	LoadingLine = "sdnpu loading "
	// ReportLine tells what a request did.
	ReportLine = "sdnpu report "
	// DeviceLine tells where a model runs; there is one for each load.
	DeviceLine = "sdnpu device "
)

var field = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*"|\S+)`)

// Lines finds the lines of a kind in a server's log. An unfinished last line is
// not one yet.
func Lines(log, kind string) []Fields {
	var all []Fields
	for line := range strings.Lines(log) {
		text, ok := strings.CutPrefix(line, kind)
		if !ok || !strings.HasSuffix(line, "\n") {
			continue
		}
		fields := Fields{}
		for _, m := range field.FindAllStringSubmatch(text, -1) {
			value := m[2]
			if unquoted, err := strconv.Unquote(value); err == nil {
				value = unquoted
			}
			fields[m[1]] = value
		}
		all = append(all, fields)
	}
	return all
}

// WaitLines waits until the log, from the given offset, has n lines of a kind.
// They pass through a pipe and may come after the answer that they tell of.
func (s *Server) WaitLines(ctx context.Context, offset int, kind string, n int) ([]Fields, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		log := s.Log()
		if lines := Lines(log[min(offset, len(log)):], kind); len(lines) >= n {
			return lines, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("host: waiting for %d lines %q: %w\n%s", n, kind, ctx.Err(), log)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
