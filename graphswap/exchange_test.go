package graphswap

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Both sets of graphs fit and one block more: other widths are loaded beside
// turns, which take a little longer meanwhile, and no prompt waits for a load.
func TestWidthsChangeBesideTurns(t *testing.T) {
	c := choosing(t, "sd8gen2", "qwen2.5-1.5b")
	require.True(t, c.Config().Spare)
	require.Equal(t, BothGraphs, c.Config().Residency)
	before := hold(t, c, 4, 100, 0, 12).Config
	beside := 0
	for range 40 {
		choice, err := c.Choose(32, 3072)
		require.NoError(t, err)
		require.Empty(t, choice.Plan.Loads)
		if choice.exchange.leftMs > 0 {
			beside++
		}
		require.NoError(t, c.Done(choice, 60))
	}
	require.Positive(t, beside)
	require.Less(t, beside, 6, "loads of 1.5 s beside turns of 1 s, once")
	require.Less(t, c.Config().Rows2, before.Rows2)
	require.Equal(t, before.Blocks, c.Config().Blocks)
	require.Equal(t, steady(c.Config()), c.Resident())
}

// halfway is a choice between two configurations of the 1.5B model with so much of
// the loads left.
func halfway(t *testing.T, c *Chooser, from, to Config, left float64, prompt, cached int) *Choice {
	choice, err := c.best(from, steady(from), prompt, cached)
	require.NoError(t, err)
	choice.after, err = c.best(to, steady(to), prompt, cached)
	require.NoError(t, err)
	loads := c.changed(from, to)
	choice.exchange = exchange{from: from, to: to, totalMs: loads, leftMs: left * loads}
	return choice
}

// What a turn takes beside an exchange lies between what it takes before and after
// it, but for steps that have the tokens of the narrow graphs and the time of the
// wide ones; its answer is what its tokens take one after the other.
func TestExchangesAreChargedTokenByToken(t *testing.T) {
	c := choosing(t, "sd8gen2", "qwen2.5-1.5b")
	rng := rand.New(rand.NewPCG(5, 7))
	within, behind := 0, 0
	for range 300 {
		from := c.configs[rng.IntN(len(c.configs))]
		to := c.configs[rng.IntN(len(c.configs))]
		if from == to || !c.hidden(from, to) {
			continue
		}
		prompt, cached := 1+rng.IntN(1000), rng.IntN(3000)
		choice := halfway(t, c, from, to, rng.Float64(), prompt, cached)
		old, after := choice.Line.SwitchEndMs, choice.after.Line.SwitchEndMs
		prefill := c.Prefill(choice)
		require.GreaterOrEqual(t, prefill, min(old, after)-1e-6)
		require.LessOrEqual(t, prefill, max(old, after)+1e-6)

		output := float64(1 + rng.IntN(200))
		context := float64(cached+prompt) + output/2
		_, now := c.step(choice, context)
		_, then := c.step(choice.after, context)
		wide, narrow := c.setting.Tokens(max(from.Rows2, to.Rows2)), c.setting.Tokens(min(from.Rows2, to.Rows2))
		left, ms := choice.exchange.leftMs-prefill, 0.0
		slowest := max(now, then) * wide / narrow
		decode := c.Decode(choice, output)
		for range int(output) {
			if ms < left {
				ms += slowest
			} else {
				ms += then
			}
		}
		require.LessOrEqual(t, decode, ms+1e-6)
		require.GreaterOrEqual(t, decode, output*min(now, then)-1e-6)
		switch {
		case left <= 0:
			behind++
			require.InDelta(t, output*then, decode, 1e-6)
		case from.Rows2 == to.Rows2:
			require.InDelta(t, output*now, decode, 1e-6, "steps run on the short graphs")
		case decode > left:
			within++
		}
	}
	require.Greater(t, behind, 10)
	require.Greater(t, within, 10)
}

// An exchange that turns out to have been wrong goes back from where it is.
func TestAnExchangeTurnsBack(t *testing.T) {
	c := choosing(t, "sd8gen2", "qwen2.5-1.5b")
	hold(t, c, 4, 100, 0, 12)
	from := c.Config()
	var begun exchange
	for begun.leftMs == 0 {
		choice, err := c.Choose(32, 3072)
		require.NoError(t, err)
		require.NoError(t, c.Done(choice, 60))
		begun = c.exchange
		require.Less(t, c.habits.count, 40)
	}
	require.Equal(t, from, begun.from)
	// As if turns had been of the other kind all the time.
	c.habits.turns = c.habits.turns[:0]
	for range remembered {
		turns, err := c.withTurn(24, 0)
		require.NoError(t, err)
		c.habits.turns = append(c.habits.turns, turns[len(turns)-1])
		c.habits.turns[len(c.habits.turns)-1].output = 8
	}
	choice, err := c.Choose(24, 0)
	require.NoError(t, err)
	back := choice.exchange
	require.Equal(t, begun.from, back.to)
	require.Equal(t, begun.to, back.from)
	require.InDelta(t, begun.totalMs-begun.leftMs, back.leftMs, 1e-6, "only what was exchanged comes back")
	require.Equal(t, begun.to, choice.Config)
	require.NoError(t, c.Done(choice, 4000))
	require.Equal(t, from, c.Config())
}

// No turn waits for other widths, or has them loaded beside it, before those that
// are there have lost a share of the loads' time.
func TestNothingIsExchangedBeforeItWasMissed(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	waited, beside := 0, 0
	for _, model := range []string{"qwen2.5-1.5b", "llama3.2-3b"} {
		for range 12 {
			c := choosing(t, "sd8gen2", model)
			long, output := rng.Float64(), 8+rng.IntN(200)
			for turn := range 20 {
				prompt, cached := 16+rng.IntN(100), min(turn*256, 2048)
				if rng.Float64() < long {
					prompt *= 8
				}
				turns, err := c.withTurn(prompt, cached)
				require.NoError(t, err)
				choice, err := c.Choose(prompt, cached)
				require.NoError(t, err)
				loads := c.changed(c.config, choice.Config)
				lost := func(turns []habit, to Config) float64 {
					for i, cfg := range c.configs {
						if cfg == to {
							return c.account(turns, i)
						}
					}
					return 0
				}
				switch {
				case turn == 0:
				case choice.exchange.leftMs > 0 && c.exchange.leftMs == 0:
					beside++
					require.GreaterOrEqual(t, lost(turns, choice.exchange.to), lostBeside*choice.exchange.totalMs)
				case choice.Config != c.config && loads > 0 && choice.exchange.leftMs == 0:
					waited++
					require.GreaterOrEqual(t, turn, evidence)
					require.GreaterOrEqual(t, lost(unexceptional(turns), choice.Config), lostWaiting*loads)
				}
				require.NoError(t, c.Done(choice, output/2+rng.IntN(output)))
			}
		}
	}
	require.Positive(t, waited)
	require.Positive(t, beside)
}
