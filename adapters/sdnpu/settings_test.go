package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
)

func TestTheLibrarysOwnWordsAreShownOnRequestOnly(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		var b strings.Builder
		logger := newLogger(&b, verbose)
		logger.Debug("library", slog.String("text", "of its own"))
		logger.Warn("ours")
		require.Contains(t, b.String(), "ours")
		require.Equal(t, verbose, strings.Contains(b.String(), "of its own"))
	}
}

func TestOllamasDebugVariableCountsAsOllamaReadsIt(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "false": false, "1": true, "true": true, "2": true} {
		t.Setenv("OLLAMA_DEBUG", value)
		require.Equal(t, want, hostDebugs(), "OLLAMA_DEBUG=%q", value)
	}
}

func TestProgressDoesNotCallACachedImageCompiled(t *testing.T) {
	require.Equal(t, "preparing head", progressText(engine.Progress{Graph: "head"}), "nobody has looked yet")
	require.Equal(t, "loading head", progressText(engine.Progress{Graph: "head", Cached: true, Elapsed: 1}))
	require.Equal(t, "compiling head", progressText(engine.Progress{Graph: "head", Elapsed: 1}))
}
