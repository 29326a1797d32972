package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// newLogger logs for people; verbose adds what the QNN library itself says.
func newLogger(w io.Writer, verbose bool) *slog.Logger {
	return slog.New(&plainHandler{w: w, level: logLevel(verbose), mu: &sync.Mutex{}})
}

// newRecordLogger logs with time and level, for those who read it later.
func newRecordLogger(w io.Writer, verbose bool) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: logLevel(verbose)}))
}

func logLevel(verbose bool) slog.Level {
	if verbose {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// plainHandler writes "warning: what (key: value, key: value)": a person who runs
// a command knows the time, and no machine reads it. Lines come with one write.
type plainHandler struct {
	w      io.Writer
	level  slog.Level
	prefix string // of names in groups
	attrs  []slog.Attr
	mu     *sync.Mutex
}

// Enabled reports whether a record is written.
func (h *plainHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle writes a record.
func (h *plainHandler) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	switch {
	case r.Level >= slog.LevelError:
		line = "error: " + line
	case r.Level >= slog.LevelWarn:
		line = "warning: " + line
	case r.Level < slog.LevelInfo:
		line = "debug: " + line
	}
	details := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		details = append(details, slog.Attr{Key: h.prefix + a.Key, Value: a.Value})
		return true
	})
	var texts []string
	for _, a := range details {
		texts = append(texts, fmt.Sprintf("%s: %v", a.Key, a.Value.Resolve()))
	}
	if len(texts) > 0 {
		line += " (" + strings.Join(texts, ", ") + ")"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.w, strings.ReplaceAll(line, "\n", " ")+"\n")
	return err
}

// WithAttrs returns a handler that writes these with every record.
func (h *plainHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		with.attrs = append(with.attrs, slog.Attr{Key: h.prefix + a.Key, Value: a.Value})
	}
	return &with
}

// WithGroup returns a handler that puts the name before those of details.
func (h *plainHandler) WithGroup(name string) slog.Handler {
	with := *h
	if name != "" {
		with.prefix += name + "."
	}
	return &with
}
