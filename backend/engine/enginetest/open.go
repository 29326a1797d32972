package enginetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/enginetest/testfile"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/graphswap/baseline"
)

// Open opens an engine for a model file and closes it at the end of the test. If the
// options of Open name no recipe, the recipe is f32.
func Open(t testing.TB, dev backend.Device, path string, o engine.Options) *engine.Engine {
	t.Helper()
	m, tok := testfile.Open(t, path)
	if o.Recipe == (model.Recipe{}) {
		var err error
		o.Recipe, err = model.FindRecipe("f32")
		require.NoError(t, err)
	}
	e, err := engine.New(t.Context(), dev, m, tok, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// PlanBy returns a value for [engine.Options].Policy that plans prompts by a published
// rule of package baseline instead of the engine's planner.
func PlanBy(rule string, spare bool) func(engine.Policy) engine.Policy {
	return func(own engine.Policy) engine.Policy { return ruled{own, rule, spare} }
}

type ruled struct {
	engine.Policy
	rule  string
	spare bool
}

func (r ruled) PlanPrompt(prompt engine.Prompt) (*engine.Forecast, error) {
	problem, err := prompt.Problem()
	if err != nil {
		return nil, err
	}
	plan, err := baseline.Plan(r.rule, problem, r.spare)
	if err != nil {
		return nil, err
	}
	return engine.NewForecast(plan, problem)
}
