package choose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/findings"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/backend"
)

// The variable `recipes` lists the compared recipes in descending order of quality.
var recipes = []string{"f16", "w8", "w8a16", "w4a16", "w4a16-lpbq", "w8a8"}

// fallback is compared only if no recipe after the first one can run.
const fallback = launch.Fallback

// margin is the smallest speedup for which a recipe is preferred to a recipe of better quality.
const margin = 1.05

// ErrNone is returned if no recipe both runs on the device and passes its gate.
var ErrNone = errors.New("no recipe passes its gate on this device")

// judge measures recipes. If an error of a judge concerns one recipe only, the comparison
// continues without this recipe.
type judge interface {
	// time returns how many milliseconds one token takes with the recipe.
	time(ctx context.Context, recipe string) (ms float64, err error)
	// check measures the quality of the recipe, and reports whether the quality reaches the
	// recipe's gate.
	check(ctx context.Context, recipe string) (t findings.Trial, passed bool, err error)
	// open opens and closes the model with the recipe and the caller's settings.
	open(ctx context.Context, recipe string) error
}

// decide compares recipes and returns the figures of each; the argument `names` must list the
// recipes in descending order of quality. If no recipe but the first can run, decide also compares
// [launch.Fallback]. decide marks one recipe as chosen. If no recipe can be
// chosen, the error is [ErrNone].
func decide(ctx context.Context, names []string, j judge) ([]findings.Trial, error) {
	trials := make([]findings.Trial, 0, len(names)+1)
	for _, name := range names {
		t, err := timed(ctx, name, j)
		if err != nil {
			return nil, err
		}
		trials = append(trials, t)
	}
	if len(names) > 1 && !slices.ContainsFunc(trials[1:], canRun) {
		t, err := timed(ctx, fallback, j)
		if err != nil {
			return nil, err
		}
		trials = append(trials, t)
	}
	var open []*findings.Trial // open lists the trials whose outcome is not known yet
	for i := range trials {
		if canRun(trials[i]) {
			open = append(open, &trials[i])
		}
	}
	for len(open) > 0 {
		t := prefer(open)
		open = slices.DeleteFunc(open, func(o *findings.Trial) bool { return o == t })
		chosen, err := judgeOne(ctx, t, j)
		if err != nil {
			return nil, err
		}
		if chosen {
			for _, o := range open {
				o.Outcome = findings.NotFaster
			}
			return trials, nil
		}
	}
	return trials, fmt.Errorf("%w: %s", ErrNone, list(trials))
}

// timed measures the time of a recipe, or stores in the trial why the recipe cannot run.
func timed(ctx context.Context, name string, j judge) (t findings.Trial, err error) {
	t = findings.Trial{Recipe: name, Gate: findings.GateOf(name)}
	if t.MsPerToken, err = j.time(ctx, name); err != nil {
		err = exclude(ctx, &t, err)
	}
	return t, err
}

func canRun(t findings.Trial) bool { return t.Outcome != findings.CannotRun }

// prefer returns the trial of the best quality among the trials whose time is at most
// `margin` times the shortest time.
func prefer(open []*findings.Trial) *findings.Trial {
	fastest := open[0].MsPerToken
	for _, t := range open {
		fastest = min(fastest, t.MsPerToken)
	}
	return open[slices.IndexFunc(open, func(t *findings.Trial) bool { return t.MsPerToken <= margin*fastest })]
}

// judgeOne checks and opens a recipe. The result `chosen` is true if the recipe passes its gate and
// the model can be opened with it.
func judgeOne(ctx context.Context, t *findings.Trial, j judge) (chosen bool, err error) {
	checked, passed, err := j.check(ctx, t.Recipe)
	if err != nil {
		return false, exclude(ctx, t, err)
	}
	checked.MsPerToken = t.MsPerToken
	if *t = checked; !passed {
		t.Outcome = findings.BelowGate
		return false, nil
	}
	if err := j.open(ctx, t.Recipe); err != nil {
		return false, exclude(ctx, t, err)
	}
	t.Outcome = findings.Chosen
	return true, nil
}

// exclude stores in a trial the reason why its recipe cannot run, and returns nil. If ctx
// is done or the device is lost, the recipe is not the cause, so exclude returns the error.
func exclude(ctx context.Context, t *findings.Trial, err error) error {
	if ctx.Err() != nil || errors.Is(err, backend.ErrGone) {
		return err
	}
	t.Outcome, t.Reason = findings.CannotRun, config.Short(reason(err))
	return nil
}

// The function `reason` describes in words why a recipe cannot run.
func reason(err error) string {
	switch {
	case errors.Is(err, backend.ErrNoMemory):
		return "the device has no memory for the recipe"
	case errors.Is(err, errors.ErrUnsupported):
		return "the device does not support the recipe"
	}
	return err.Error()
}

// The function `list` formats the figures of all trials as one text.
func list(trials []findings.Trial) string {
	var parts []string
	for _, t := range trials {
		parts = append(parts, t.String())
	}
	return strings.Join(parts, "; ")
}
