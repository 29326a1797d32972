package main

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeopleReadWordsAndNoRecords(t *testing.T) {
	var b bytes.Buffer
	l := newLogger(&b, true)
	l.Info("building the emulator, once", "compiler", "/usr/bin/cc")
	l.Warn("two\nlines")
	l.With("a", 1).WithGroup("g").With("b", 2).Error("broken", "c", 3)
	l.Debug("library")
	require.Equal(t, "building the emulator, once (compiler: /usr/bin/cc)\nwarning: two lines\nerror: broken (a: 1, g.b: 2, g.c: 3)\ndebug: library\n", b.String())
	require.NotContains(t, b.String(), "level=")

	b.Reset()
	newRecordLogger(&b, false).Warn("kept")
	require.Contains(t, b.String(), "level=WARN")
	require.False(t, newLogger(&b, false).Enabled(t.Context(), slog.LevelDebug))
}
