package qnn

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// lineSink collects log lines from any thread.
type lineSink struct {
	mu    sync.Mutex
	lines []string
}

func (s *lineSink) add(level LogLevel, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf("%d %s", level, text))
}

func (s *lineSink) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.lines...)
}

func TestLogLinesAreRendered(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		newLinear(t, "l").build(t, s.backend, s.newContext(t), "g", nil)
		_, err := s.backend.LoadContext(s.device, make([]byte, 64), ContextOptions{}, nil)
		require.Error(t, err)
		lines := s.lines.all()
		require.NotEmpty(t, lines)
		for _, line := range lines {
			require.NotRegexp(t, `%[-0-9.]*(s|d|u|x|p|lu|zu|llu)\b`, line, "the format must be rendered")
			require.NotContains(t, line, option66)
			require.NotRegexp(t, `<[EWIVD]>`, line)
		}
		require.True(t, strings.HasPrefix(lines[len(lines)-1], "1 "), "the last line is the error: %q", lines[len(lines)-1])
	})
}

func TestEachLogHasItsOwnLines(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		before := len(s.lines.all())
		second := &lineSink{}
		log, err := s.library.NewLog(LogInfo, second.add)
		require.NoError(t, err)
		require.NoError(t, log.SetLevel(LogError))
		slot := log.slot
		require.NoError(t, log.Close())
		after := second.all()
		late := []byte("late\x00")
		slot.line(&late[0], uint32(LogError), 0, 0)
		again, err := s.library.NewLog(LogError, nil)
		require.NoError(t, err)
		require.Same(t, slot, again.slot, "a closed log's callback is reused")
		require.NoError(t, again.Close())
		require.Equal(t, after, second.all(), "no line after Close")
		require.GreaterOrEqual(t, len(s.lines.all()), before)
	})
}

func TestLinesWithoutArgumentsAreTheirFormat(t *testing.T) {
	l := at(40)
	sink := &lineSink{}
	slot := takeSlot(&logTarget{library: l, sink: sink.add})
	defer slot.release()
	for _, text := range []string{"<E> 100 % sure\x00", option66 + "\x00", "\x00"} {
		format := []byte(text)
		slot.line(&format[0], uint32(LogError), 0, 0)
	}
	slot.line(nil, uint32(LogError), 0, 0)
	require.Equal(t, []string{"1 100 % sure"}, sink.all())
	require.Equal(t, []string{"100 % sure"}, l.lines.since(0))
}

func TestErrorLinesAgreeWithAPlainList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var e errorLines
	var all []string
	for range 200 {
		mark, seen := e.mark(), len(all)
		for range rng.IntN(2 * lineMemory) {
			line := fmt.Sprint("line ", len(all))
			e.add(line)
			all = append(all, line)
		}
		want := all[max(seen, len(all)-lineMemory):]
		require.Equal(t, append([]string{}, want...), append([]string{}, e.since(mark)...))
	}
}

func TestLevelMarksAreTrimmed(t *testing.T) {
	for text, want := range map[string]string{
		" <E> could not create op\n": "could not create op",
		"plain":                      "plain",
		"<E>":                        "<E>",
		"":                           "",
		"<x":                         "<x",
	} {
		require.Equal(t, want, trimLine(text), text)
	}
}
