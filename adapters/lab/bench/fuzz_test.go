package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzReadFiles parses its input as each of the small files that benchmarks read.
func FuzzReadFiles(f *testing.F) {
	f.Add(`{"task":"t","id":"1","prompt":[{"role":"user","content":"hi"}]}`)
	f.Add(`{"prompt":5,"output":7}`)
	f.Add(`{"accept_length":2.5,"sd":{"all":{"mat":1.5}}}`)
	f.Add(`{"steps":[[1,2,3]]}` + "\n")
	f.Add(`{"prompt":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		if prompts, err := ReadPrompts(strings.NewReader(text), "name"); err == nil {
			require.NotEmpty(t, prompts)
			for _, p := range prompts {
				require.NotEmpty(t, p.Prompt)
			}
		}
		if turns, err := ReadTurns(strings.NewReader(text)); err == nil {
			require.NotEmpty(t, turns)
			for _, turn := range turns {
				require.Positive(t, min(turn.Prompt, turn.Output))
			}
		}
		if sd, ours, err := ReadAccept(strings.NewReader(text)); err == nil {
			require.GreaterOrEqual(t, min(sd, ours), 1.0)
		}
		if list, whole, err := ReadMeasured([]byte(text)); err == nil {
			require.LessOrEqual(t, whole, len(text))
			for _, m := range list {
				for _, step := range m.Steps {
					require.LessOrEqual(t, step.Accepted(), step.Drafted())
				}
			}
		}
	})
}
