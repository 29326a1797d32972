package graphswap

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func choosing(t *testing.T, device, model string) *Chooser {
	c, err := NewChooser(cost(t, device, model), Setting{
		Blocks: []int{4, 7}, Rows1: []int{128, 256}, Rows2: []int{8, 16, 32}, Context: 4096, Accept: 4.21,
	})
	require.NoError(t, err)
	return c
}

// hold runs turns that are alike and returns the last one's choice.
func hold(t *testing.T, c *Chooser, turns, prompt, cached, output int) (choice *Choice) {
	for range turns {
		var err error
		choice, err = c.Choose(prompt, cached)
		require.NoError(t, err)
		require.NoError(t, choice.Line.Check(choice.Problem))
		require.NotEmpty(t, choice.Reason)
		require.NoError(t, c.Done(choice, output))
	}
	return choice
}

// Where one set of graphs fits, long answers at long contexts want narrow graphs
// and short answers wide ones: the chooser finds out, and back again.
func TestTheChooserLearnsWhatTurnsAreLike(t *testing.T) {
	c := choosing(t, "sd8gen2", "llama3.2-3b")
	require.Equal(t, OneGraph, c.Config().Residency)
	require.Equal(t, 16, hold(t, c, 12, 32, 3072, 300).Config.Rows2)
	require.InDelta(t, 300, c.expected(), 10)
	require.Equal(t, 32, hold(t, c, 40, 200, 0, 12).Config.Rows2)
	require.InDelta(t, 12, c.expected(), 10)
}

// A width that is already loaded costs nothing to change to, another set does.
func TestChangesKeepWhatFits(t *testing.T) {
	c := choosing(t, "sd8gen2", "llama3.2-3b")
	c.config = Config{Blocks: 4, Rows1: 256, Rows2: 32, Residency: OneGraph}
	c.resident = []Graph{G1, G1, G2, G2}
	to := c.config
	to.Rows1 = 128
	require.Equal(t, []Graph{None, None, G2, G2}, c.kept(to))
	require.Zero(t, c.changed(c.config, to))
	to.Rows1, to.Rows2 = 256, 16
	require.Equal(t, []Graph{G1, G1, None, None}, c.kept(to))
	require.InDelta(t, 3173.7, c.changed(c.config, to), 1, "the body of 2.82 GB at 0.917 GB/s, and four latencies")
	to.Blocks = 7
	require.Equal(t, slices.Repeat([]Graph{None}, 7), c.kept(to))
}

// CoordGen verifies 64 rows on graphs of 32: two passes, which pay only where
// drafts of that length do.
func TestMoreRowsThanAGraphHasAreVerifiedWhereTheyPay(t *testing.T) {
	rows := func(draftMs, saturation, accept float64) int {
		model := cost(t, "sd8gen2", "qwen2.5-1.5b")
		model.Profile.CPU.DraftMs = draftMs
		c, err := NewChooser(model, Setting{
			Blocks: []int{4}, Rows1: []int{256}, Rows2: []int{32}, Context: 2048, Accept: accept, Saturation: saturation, Verify: []int{64},
		})
		require.NoError(t, err)
		choice, err := c.Choose(300, 0)
		require.NoError(t, err)
		return choice.Verify
	}
	// Two passes take twice the time, and the second half of a draft is worth less
	// than the first, however long drafts hold.
	require.Equal(t, 32, rows(3, 0, 4.21))
	require.Equal(t, 32, rows(3, 400, 40))
	require.Equal(t, 64, rows(200, 400, 40), "a draft that takes longer than its passes")
	require.Equal(t, 32, rows(200, 400, 1), "no drafts")
}

// In idle time the graphs for the next prompt are loaded, the first block first,
// as many as the time is enough for, and every state is one to plan from.
func TestIdleTimeLoadsWhatTheNextTurnWants(t *testing.T) {
	c := choosing(t, "sd8gen2", "llama3.2-3b")
	none, err := c.Idle(0)
	require.NoError(t, err)
	require.Nil(t, none, "nothing is known yet")
	hold(t, c, 5, 1500, 0, 24)
	idle, err := c.Idle(0)
	require.NoError(t, err)
	require.NotNil(t, idle)
	require.NotEmpty(t, idle.Reason)
	require.Equal(t, len(idle.Loads), c.Within(idle, idle.Ms))
	for i, l := range idle.Loads {
		require.Equal(t, -1, l.After)
		require.True(t, i == 0 || l.Block > idle.Loads[i-1].Block)
	}
	was, err := c.Choose(1500, 0)
	require.NoError(t, err)
	held := *c
	for loads := range len(idle.Loads) + 1 {
		if idle.Config != held.config && loads > 0 && loads < len(idle.Loads) {
			require.Zero(t, held.Within(idle, idle.Ms*float64(loads)/float64(len(idle.Loads))))
			continue
		}
		*c = held
		c.Idled(idle, loads)
		choice, err := c.Choose(1500, 0)
		require.NoError(t, err)
		require.NoError(t, choice.Line.Check(choice.Problem))
		if loads == len(idle.Loads) {
			require.Less(t, choice.Line.SwitchEndMs, was.Line.SwitchEndMs)
		}
	}
	*c = held
	hold(t, c, 20, 16, 0, 60)
	idle, err = c.Idle(0)
	require.NoError(t, err)
	require.Nil(t, idle, "short prompts run on the short graphs")
}
