package choose

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/findings"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// made holds the results that a test's judge returns for one recipe, without measuring
// anything.
type made struct {
	ms                         float64
	passes                     bool
	timeErr, checkErr, openErr error
}

// judgeOf is a judge that returns results from a table, and counts its calls.
type judgeOf struct {
	made   map[string]made
	called []string
}

func (j *judgeOf) time(_ context.Context, r string) (float64, error) {
	j.called = append(j.called, "time "+r)
	return j.made[r].ms, j.made[r].timeErr
}

func (j *judgeOf) check(_ context.Context, r string) (findings.Trial, bool, error) {
	j.called = append(j.called, "check "+r)
	return findings.Trial{Recipe: r, Positions: 1000, Top1: 1, Ratio: 1}, j.made[r].passes, j.made[r].checkErr
}

func (j *judgeOf) open(_ context.Context, r string) error {
	j.called = append(j.called, "open "+r)
	return j.made[r].openErr
}

// outcomes maps the name of each tried recipe to its outcome.
func outcomes(trials []findings.Trial) map[string]findings.Outcome {
	of := map[string]findings.Outcome{}
	for _, t := range trials {
		of[t.Recipe] = t.Outcome
	}
	return of
}

func TestFastestThatPassesIsChosen(t *testing.T) {
	full := fmt.Errorf("load: %w", backend.ErrNoMemory)
	for _, tt := range []struct {
		name    string
		made    [3]made // made holds what the judge returns for the recipes f16, w8 and w4a16
		want    string
		outcome findings.Outcome // outcome is the outcome that the test expects for the recipe f16
	}{
		{"the fastest", [3]made{{ms: 4, passes: true}, {ms: 3, passes: true}, {ms: 2, passes: true}}, "w4a16", findings.NotFaster},
		{"the fastest is below its gate", [3]made{{ms: 4, passes: true}, {ms: 3, passes: true}, {ms: 2}}, "w8", findings.NotFaster},
		{"3 % are not worth a loss of quality", [3]made{{ms: 2.06, passes: true}, {ms: 2, passes: true}, {ms: 2, passes: true}}, "f16", findings.Chosen},
		{"6 % are", [3]made{{ms: 2.12, passes: true}, {ms: 2, passes: true}, {ms: 2, passes: true}}, "w8", findings.NotFaster},
		{"equal times, the best fails", [3]made{{ms: 2}, {ms: 2, passes: true}, {ms: 2, passes: true}}, "w8", findings.BelowGate},
		{"only the slowest passes", [3]made{{ms: 4, passes: true}, {ms: 3}, {ms: 2}}, "f16", findings.Chosen},
		{"no memory for f16", [3]made{{timeErr: full}, {ms: 3, passes: true}, {ms: 4, passes: true}}, "w8", findings.CannotRun},
		{"one graph fits and the model does not", [3]made{{ms: 2, passes: true, openErr: full}, {ms: 3, passes: true}, {ms: 4, passes: true}}, "w8", findings.CannotRun},
		{"the check fails", [3]made{{ms: 2, checkErr: errors.ErrUnsupported}, {ms: 3, passes: true}, {ms: 4, passes: true}}, "w8", findings.CannotRun},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trials, err := decide(t.Context(), []string{"f16", "w8", "w4a16"}, &judgeOf{made: map[string]made{"f16": tt.made[0], "w8": tt.made[1], "w4a16": tt.made[2]}})
			require.NoError(t, err)
			of := outcomes(trials)
			require.Equal(t, findings.Chosen, of[tt.want], trials)
			require.Equal(t, tt.outcome, of["f16"])
		})
	}
}

// TestChoiceFollowsItsRules: in random comparisons, each recipe is measured once and
// checked at most once. Among the recipes that pass their gates, the chosen recipe has
// the best quality of those that are nearly as fast as the fastest.
func TestChoiceFollowsItsRules(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	none, fallbacks := 0, 0
	for range 5000 {
		j := &judgeOf{made: map[string]made{}}
		maybe := func() error {
			if rng.IntN(6) == 0 {
				return backend.ErrNoMemory
			}
			return nil
		}
		seldom := rng.IntN(4) == 0 // on some devices, only the first recipe and the fallback can run
		for _, name := range append(slices.Clone(recipes), fallback) {
			j.made[name] = made{1 + float64(rng.IntN(30))/10, rng.IntN(2) == 0, maybe(), maybe(), maybe()}
			if seldom && slices.Contains(recipes[1:], name) {
				j.made[name] = made{timeErr: errors.ErrUnsupported}
			}
		}
		can := func(name string) bool {
			m := j.made[name]
			return m.timeErr == nil && m.checkErr == nil && m.openErr == nil && m.passes
		}
		trials, err := decide(t.Context(), recipes, j)
		compared := recipes
		if !slices.ContainsFunc(recipes[1:], func(name string) bool { return j.made[name].timeErr == nil }) {
			compared = append(slices.Clone(recipes), fallback)
			fallbacks++
		}
		require.Len(t, trials, len(compared))
		var left []findings.Trial
		for _, trial := range trials {
			switch trial.Outcome {
			case findings.Chosen, findings.NotFaster:
				left = append(left, trial)
			case findings.BelowGate, findings.CannotRun:
				require.False(t, can(trial.Recipe), "%s was refused: %v", trial.Recipe, j.made)
			default:
				t.Fatalf("outcome %q", trial.Outcome)
			}
		}
		sorted := slices.Sorted(slices.Values(j.called))
		require.Len(t, slices.Compact(sorted), len(j.called), "measured or checked twice")
		if err != nil {
			require.ErrorIs(t, err, ErrNone)
			require.Empty(t, left)
			require.False(t, slices.ContainsFunc(compared, can))
			none++
			continue
		}
		fastest := slices.MinFunc(left, func(a, b findings.Trial) int { return int(1e6 * (a.MsPerToken - b.MsPerToken)) })
		best := left[slices.IndexFunc(left, func(t findings.Trial) bool { return t.MsPerToken <= 1.05*fastest.MsPerToken })]
		require.Equal(t, findings.Chosen, best.Outcome, trials)
		require.True(t, can(best.Recipe))
		require.Equal(t, "open "+best.Recipe, j.called[len(j.called)-1], "the choice ends the comparison")
	}
	require.Positive(t, none)
	require.Positive(t, fallbacks)
}

func TestLostDeviceAndInterruptEndTheComparison(t *testing.T) {
	gone := &judgeOf{made: map[string]made{"f16": {ms: 1, checkErr: fmt.Errorf("run: %w", backend.ErrGone)}}}
	_, err := decide(t.Context(), []string{"f16"}, gone)
	require.ErrorIs(t, err, backend.ErrGone)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = decide(ctx, []string{"f16", "w8"}, &judgeOf{made: map[string]made{"f16": {timeErr: context.Canceled}}})
	require.ErrorIs(t, err, context.Canceled)
}

func TestAllRecipesAreCompared(t *testing.T) {
	for _, r := range model.Recipes {
		require.Equal(t, r.Name != "f32" && !r.Shadow, slices.Contains(recipes, r.Name), r.Name)
	}
}
