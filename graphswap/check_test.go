package graphswap

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every broken invariant is found: a sound timeline is spoilt in one place.
func TestCheckFindsWhatIsBroken(t *testing.T) {
	p := problem(t, "sd8gen2", "qwen2.5-1.5b", request(4, 32, 1024, true))
	first := func(line *Timeline, kind string) *Task {
		for i := range line.Tasks {
			if line.Tasks[i].Kind == kind {
				return &line.Tasks[i]
			}
		}
		return nil
	}
	for name, spoil := range map[string]func(*Timeline){
		"a step twice":         func(l *Timeline) { l.Tasks = append(l.Tasks, *first(l, Run)) },
		"a step missing":       func(l *Timeline) { l.Tasks = slices.Delete(l.Tasks, 2, 3) },
		"an unknown step":      func(l *Timeline) { first(l, Run).Index = 99 },
		"another block":        func(l *Timeline) { first(l, Run).Block = 1 },
		"another graph":        func(l *Timeline) { first(l, Run).Graph = G2 },
		"runs of another":      func(l *Timeline) { first(l, Run).Runs = 3 },
		"two at once":          func(l *Timeline) { first(l, Run).EndMs += 1 },
		"back in time":         func(l *Timeline) { first(l, Run).EndMs = -1 },
		"a load too early":     func(l *Timeline) { l.Tasks[len(l.Tasks)-1].StartMs -= 600 },
		"a load on the NPU":    func(l *Timeline) { first(l, Create).Lane = NPU },
		"a total":              func(l *Timeline) { l.StallMs += 5 },
		"the end":              func(l *Timeline) { l.SwitchEndMs -= 5 },
		"more than the window": func(l *Timeline) { l.PeakBytes = 100e9 },
	} {
		line := simulated(t, p, PlanGreedy, false)
		line.Tasks = slices.Clone(line.Tasks)
		spoil(line)
		require.Error(t, line.Check(p), name)
	}
	p.WindowBytes = 1e9
	line, err := Simulate(simulated(t, problem(t, "sd8gen2", "qwen2.5-1.5b", request(4, 32, 1024, true)), PlanSync, false).Plan, p)
	require.NoError(t, err)
	require.ErrorIs(t, line.Check(p), ErrMemory)
}

func TestValidateRefusesImpossiblePlans(t *testing.T) {
	p := unit(3, 2, 1, 2)
	make := func() *Plan {
		plan, err := p.Make(PlanGreedy, false)
		require.NoError(t, err)
		require.NoError(t, plan.Validate())
		return plan
	}
	for name, spoil := range map[string]func(*Plan){
		"a step missing":             func(p *Plan) { p.Steps = p.Steps[1:] },
		"a chunk before its turn":    func(p *Plan) { p.Steps[0], p.Steps[3] = p.Steps[3], p.Steps[0] },
		"a block before the one":     func(p *Plan) { p.Steps[0], p.Steps[1] = p.Steps[1], p.Steps[0] },
		"a graph that is not there":  func(p *Plan) { p.Steps[0].Graph = G2 },
		"a graph freed too early":    func(p *Plan) { p.Steps[len(p.Steps)-1].Graph = G1 },
		"another end":                func(p *Plan) { p.After[1] = G1 },
		"a load of nothing":          func(p *Plan) { p.Loads[0].Graph = Both },
		"a load after the last step": func(p *Plan) { p.Loads[0].After = len(p.Steps) },
		"a wait in a circle":         func(p *Plan) { p.Loads[0], p.Loads[len(p.Loads)-1] = p.Loads[len(p.Loads)-1], p.Loads[0] },
	} {
		plan := make()
		spoil(plan)
		require.ErrorIs(t, plan.Validate(), ErrPlan, name)
	}
}

// The way back: blocks that begin on G2 stay there for short prompts, and a long
// one is worth a round trip where loads are quick.
func TestTheWayBackPaysForLongPromptsAlone(t *testing.T) {
	c := cost(t, "sd8gen3", "llama3.2-3b")
	for _, tt := range []struct {
		prompt int
		back   bool
	}{{16, false}, {64, false}, {2048, true}} {
		r := request(7, 8, tt.prompt, false)
		r.Before = slices.Repeat([]Graph{G2}, 7)
		p, err := c.Problem(r)
		require.NoError(t, err)
		line := simulated(t, p, PlanDescent, false)
		require.Equal(t, tt.back, len(line.Plan.Loads) > 0, "%d tokens", tt.prompt)
		require.LessOrEqual(t, line.SwitchEndMs, end(t, p, PlanG2, false)+1e-9)
		require.LessOrEqual(t, line.SwitchEndMs, end(t, p, PlanSync, false)+1e-9)
		require.Equal(t, slices.Repeat([]Graph{G2}, 7), line.Plan.After)
	}
}

// Every plan, from every residency, is sound and ends where it says.
func TestPlansFromEveryResidencyAreSound(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 1))
	for range 60 {
		p := randomProblem(rng, 1+rng.IntN(4), 1+rng.IntN(4))
		for _, before := range []Graph{None, G1, G2} {
			p.Before = slices.Repeat([]Graph{before}, p.Blocks())
			for _, name := range PlanNames() {
				for _, spare := range []bool{false, true} {
					line := simulated(t, p, name, spare)
					for _, g := range line.Plan.After {
						require.NotEqual(t, None, g, name)
						if Switches(name) {
							require.Equal(t, G2, g, name)
						}
					}
				}
			}
		}
	}
}
