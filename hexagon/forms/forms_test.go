package forms

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	chosen = flag.String("forms", "", "run only forms whose name matches this expression, and print each")
	update = flag.Bool("update", false, "write testdata/forms.md")
)

// trial is a form with what the libraries made of it.
type trial struct {
	*form
	graph   *Graph
	results map[string]*Result // by library
	grades  map[string]grade
	faults  []string
	pending bool // the emulator cannot do it, and is not expected to
}

func TestFormsEndAsTheTableSays(t *testing.T) {
	libraries := libraries(t)
	pattern, err := regexp.Compile(*chosen)
	require.NoError(t, err)
	var trials []*trial
	names, lines := map[string]bool{}, map[string]bool{}
	for _, f := range allForms() {
		line := f.row + "/" + f.types
		if testing.Short() && lines[line] {
			continue // one of each line of the table
		}
		lines[line] = true
		require.False(t, names[f.name()], "%s stands twice in the table", f.name())
		names[f.name()] = true
		if pattern.MatchString(f.name()) {
			trials = append(trials, &trial{form: f, results: map[string]*Result{}, grades: map[string]grade{}})
		}
	}
	runAll(t, libraries, trials)
	for _, trial := range trials {
		if *chosen != "" {
			t.Log(trial)
		}
		for _, fault := range trial.faults {
			t.Errorf("%s: %s", trial.name(), fault)
		}
	}
	text := markdown(report(trials), libraries)
	t.Log("\n" + text)
	if *update {
		require.Len(t, libraries, 2, "the table compares two libraries")
		require.NoError(t, os.MkdirAll("testdata", 0o777))
		require.NoError(t, os.WriteFile("testdata/forms.md", []byte(heading+text), 0o666))
	}
}

const heading = `# Operator forms

Written by ` + "`go test ./hexagon/forms -update`" + `. Errors are the worst of all forms of a line, against a float64
reference on the encoded inputs: relative rms for floats, output steps (LSB) for quantized numbers. What is
refused is refused by both libraries in the same call with the same code.

`

// runAll runs the forms; the libraries work side by side.
func runAll(t *testing.T, libraries []*library, trials []*trial) {
	t.Helper()
	for _, l := range libraries {
		t.Cleanup(func() { require.NoError(t, l.stop()) })
	}
	for _, trial := range trials {
		trial.graph = trial.form.graph()
		results, failures := make([]*Result, len(libraries)), make([]error, len(libraries))
		var both sync.WaitGroup
		for i, l := range libraries {
			both.Go(func() { results[i], failures[i] = l.try(trial.graph) })
		}
		both.Wait()
		for i, l := range libraries {
			require.NoError(t, failures[i])
			trial.accept(l.name, results[i])
		}
		trial.graph = nil // large
	}
}

// accept judges the result of a library.
func (t *trial) accept(library string, r *Result) {
	t.results[library] = r
	if library == "vendor" && t.unreliable != "" {
		return
	}
	fault := func(format string, args ...any) {
		if library == "emulator" && pending.MatchString(t.name()) {
			t.pending = true
			return
		}
		t.faults = append(t.faults, library+": "+fmt.Sprintf(format, args...))
	}
	if r.Outcome != t.want {
		fault("ends with %v, not %v: %s", r.Outcome, t.want, r.Text)
		return
	}
	if t.want != (Outcome{}) {
		return
	}
	if r.Differs != "" {
		fault("%s gives other bits", r.Differs)
	}
	g, err := judge(t.graph, r.Outputs)
	if err != nil {
		fault("%v", err)
		return
	}
	t.grades[library] = g
	if relrms, lsb := t.limit.of(library); !g.within(relrms, lsb) {
		fault("error %v, allowed is %v", g, grade{relrms: relrms, lsb: lsb})
	}
	r.Outputs = nil
}

func (t *trial) String() string {
	text := t.name()
	for _, library := range []string{"emulator", "vendor"} {
		if r := t.results[library]; r != nil {
			text += fmt.Sprintf("  %s: %v", library, r.Outcome)
			if g, ok := t.grades[library]; ok {
				text += fmt.Sprintf(" %v", g)
			}
		}
	}
	return text
}
