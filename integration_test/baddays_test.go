package integration_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// badDay is a row of the table: something is wrong, a user tries all the same.
type badDay struct {
	name string
	// make brings the bad day about. It changes the day's arguments or its
	// environment, or what lies in the cache.
	make func(t *testing.T, d *day)
	// says is what the user must get to read, the remedy among it.
	says []string
	// fine tells that the answer comes all the same, with says as a warning.
	fine bool
	// later is what must hold afterwards, besides that a sound model is answered
	// from the same cache.
	later func(t *testing.T, d *day)
}

// day is one run of the command and the world around it.
type day struct {
	dir, cache     string
	model, library string
	prompt         string
	env            []string
	// unprivileged runs the command as nobody.
	unprivileged bool
	// patience is how long a compiler may be silent; zero is the program's own.
	patience time.Duration
}

// badDays are all rows, in the order in which they are printed.
func badDays() []badDay {
	return slices.Concat(badModels, badLibraries, badCaches, badPrompts)
}

// TestBadDays runs the real command through every row; -v prints the table.
func TestBadDays(t *testing.T) {
	t.Logf("| bad day | what the user reads | the answer comes |")
	for _, row := range badDays() {
		t.Run(row.name, func(t *testing.T) {
			d := newDay(t)
			row.make(t, d)
			got := d.run(t)
			for d.patience > 0 && d.patience < time.Minute && !saysAll(got.stderr, row.says) {
				d.patience *= 4 // a busy machine is slow before what hangs does
				got = d.run(t)
			}
			t.Logf("| %s | %s | %v |", row.name, lastLine(got.stderr), row.fine)
			for _, s := range row.says {
				require.Contains(t, got.stderr, s)
			}
			require.NotContains(t, got.stderr, "goroutine ", "no traces")
			if row.fine {
				require.Zero(t, got.code, got.stderr)
				require.Equal(t, d.answer(t), got.stdout)
			} else {
				require.Equal(t, 1, got.code, got.stderr)
				require.Empty(t, got.stdout)
				require.Contains(t, lastLine(got.stderr), "error: ")
			}
			if row.later != nil {
				row.later(t, d)
			}
			sound := newDay(t)
			sound.cache = d.cache
			got = sound.run(t)
			require.Zero(t, got.code, got.stderr)
			require.Equal(t, sound.answer(t), got.stdout, "nothing is lost")
		})
	}
}

// newDay is a good one.
func newDay(t *testing.T) *day {
	dir, err := os.MkdirTemp("", "sdnpu-day-") // not t.TempDir, where nobody else may look
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return &day{
		dir: dir, cache: filepath.Join(dir, "images"), model: modelFile(t, "stories260K-f16.gguf"),
		library: emulatorLibrary(t), prompt: references(t, "f16")[1].Prompt,
	}
}

// answer is what the command prints on a good day.
func (d *day) answer(t *testing.T) string { return references(t, "f16")[1].answer() + "\n" }

func (d *day) run(t *testing.T, env ...string) outcome {
	t.Helper()
	env = slices.Concat([]string{"SDNPU_CACHE=" + d.cache}, d.env, env)
	if d.patience > 0 {
		env = append(env, "SDNPU_COMPILE="+d.patience.String())
	}
	n := len(references(t, "f16")[1].IDs)
	args := []string{"run", "--model", d.model, "--library", d.library, "--prompt", d.prompt, "-n", itoa(n)}
	if d.unprivileged {
		return asNobody(t, d, env, args)
	}
	return command(t, env, program(t), args...)
}

func saysAll(text string, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(s string) bool { return !strings.Contains(text, s) })
}

// file writes a file of the day.
func (d *day) file(t *testing.T, name string, content []byte) string {
	path := filepath.Join(d.dir, name)
	require.NoError(t, os.WriteFile(path, content, 0o644))
	return path
}

// images are the files in the cache, after a run that fills it.
func (d *day) images(t *testing.T) []string {
	t.Helper()
	got := d.run(t)
	require.Zero(t, got.code, got.stderr)
	files, err := filepath.Glob(filepath.Join(d.cache, "*"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 2)
	return files
}

func lastLine(text string) string {
	text = strings.TrimRight(text, "\n")
	return text[strings.LastIndex(text, "\n")+1:]
}
