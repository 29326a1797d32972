package cmdline

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoggerForPeopleWritesPlainLines(t *testing.T) {
	var b bytes.Buffer
	l := NewLogger(&b, true)
	l.Info("building the emulator; this happens once", "compiler", "/usr/bin/cc")
	l.Warn("two\nlines")
	l.With("a", 1).WithGroup("g").With("b", 2).Error("broken", "c", 3)
	l.Debug("library")
	require.Equal(t, "building the emulator; this happens once (compiler: /usr/bin/cc)\nwarning: two lines\nerror: broken (a: 1, g.b: 2, g.c: 3)\ndebug: library\n", b.String())
	require.NotContains(t, b.String(), "level=")

	b.Reset()
	NewRecordLogger(&b, false).Warn("kept")
	require.Contains(t, b.String(), "level=WARN")
	require.False(t, NewLogger(&b, false).Enabled(t.Context(), slog.LevelDebug))
}

func TestBytesAreFormattedForPeople(t *testing.T) {
	for n, want := range map[int64]string{5: "1 KiB", 1 << 20: "1.0 MiB", 3 << 29: "1.5 GiB", 20 << 30: "20 GiB", 25 << 20: "25 MiB"} {
		require.Equal(t, want, Bytes(n))
	}
}

func TestDebugMessagesNeedVerbose(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		var b strings.Builder
		logger := NewLogger(&b, verbose)
		logger.Debug("library", slog.String("text", "of its own"))
		logger.Warn("ours")
		require.Contains(t, b.String(), "ours")
		require.Equal(t, verbose, strings.Contains(b.String(), "of its own"))
	}
}

func TestOneThingIsNotPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 images", 1: "1 image", 2: "2 images"} {
		require.Equal(t, want, Count(n, "image"))
	}
}
