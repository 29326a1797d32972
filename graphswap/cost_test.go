package graphswap

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeadsTakeTheSmallestGraphThatFits checks that the head runs on its smallest graph
// that holds the remaining rows of a chunk, or on its largest graph. The widths of the
// block graphs do not change the head's time.
func TestHeadsTakeTheSmallestGraphThatFits(t *testing.T) {
	c := cost(t, "sd8gen2", "qwen2.5-1.5b")
	rng := rand.New(rand.NewPCG(7, 3))
	for range 300 {
		r := Request{Blocks: 1 + rng.IntN(4), DecodeRows: 1 + rng.IntN(40), Prompt: 1 + rng.IntN(300)}
		r.PrefillRows = r.DecodeRows * (1 + rng.IntN(8))
		bare, err := c.Problem(r)
		require.NoError(t, err)
		for i := range bare.Chunks { // without AllLogits, the last chunk includes the head's time for one row, which is subtracted here
			bare.PrefillMs[i][r.Blocks-1] -= float64((i+1)/len(bare.Chunks)) * c.Head(1)
			bare.DecodeMs[i][r.Blocks-1] -= float64((i+1)/len(bare.Chunks)) * c.Head(1)
		}
		r.AllLogits, r.Heads = true, []int{1 + rng.IntN(20)}
		if rng.IntN(2) == 0 {
			r.Heads = append(r.Heads, r.Heads[0]+1+rng.IntN(100))
		}
		p, err := c.Problem(r)
		require.NoError(t, err)
		least, most := r.Heads[0], r.Heads[len(r.Heads)-1]
		for i, tokens := range p.Chunks {
			head := float64(tokens/most) * c.Head(most)
			if left := tokens % most; left > least {
				head += c.Head(most)
			} else if left > 0 {
				head += c.Head(least)
			}
			require.InDelta(t, head, p.PrefillMs[i][r.Blocks-1]-bare.PrefillMs[i][r.Blocks-1], 1e-6, "%+v", r)
			require.InDelta(t, head, p.DecodeMs[i][r.Blocks-1]-bare.DecodeMs[i][r.Blocks-1], 1e-6, "%+v", r)
		}
	}
	for _, heads := range [][]int{{0}, {-8, 3}, {8, 8}, {32, 8}, {1 << 30}} {
		_, err := c.Problem(Request{Blocks: 1, PrefillRows: 32, DecodeRows: 8, Prompt: 9, Heads: heads})
		require.ErrorIs(t, err, ErrRequest, "%v", heads)
	}
}

// TestDecodePassesRunTheHeadForTheirDraftsOnly compares the time of a decode pass with
// that of a pass whose head runs for all rows.
func TestDecodePassesRunTheHeadForTheirDraftsOnly(t *testing.T) {
	c := cost(t, "sd8gen2", "qwen2.5-1.5b")
	r := Request{Blocks: 2, PrefillRows: 128, DecodeRows: 8, Prompt: 9, Heads: []int{1, 8}}
	all, err := c.Problem(r)
	require.NoError(t, err)
	for most, heads := range map[int][2]float64{
		1: {c.headGraphMs(1), c.headGraphMs(1)}, 8: {c.headGraphMs(8), c.headGraphMs(8)}, 20: {3 * c.headGraphMs(8), c.headGraphMs(8)},
	} {
		r.DecodeLogits = most
		some, err := c.Problem(r)
		require.NoError(t, err)
		require.Equal(t, all.VerifyMs[0][0], some.VerifyMs[0][0], "the first block has no head")
		require.InDelta(t, all.VerifyMs[0][1]-16*c.headGraphMs(8)+heads[0], some.VerifyMs[0][1], 1e-6)
		require.InDelta(t, all.VerifyMs[1][1]-c.headGraphMs(8)+heads[1], some.VerifyMs[1][1], 1e-6)
	}
}

// The head of a profile that was measured without drafts has only one width.
func TestHeadsOfOtherWidthsUseTheMeasuredOnes(t *testing.T) {
	c := cost(t, "sd8gen2", "qwen2.5-1.5b")
	c.Model.Head = &MeasuredGraph{Widths: map[int]MeasuredWidth{8: {RunMs: 5}, 32: {RunMs: 7}}}
	for rows, want := range map[int]float64{1: 5, 8: 5, 9: 7, 32: 7, 33: 14, 256: 56} {
		require.Equal(t, want, c.headGraphMs(rows), "%d rows", rows)
	}
}

func TestGenericCostsAreNearTheListedOnes(t *testing.T) {
	for device, up := range map[string]float64{"sd8gen2": 1.10, "sd8elite": 1.10, "sd8gen3": 1.17} {
		p, err := Device(device)
		require.NoError(t, err)
		for name, m := range p.Models {
			listed, err := p.Cost(name)
			require.NoError(t, err)
			// GenericCost has no separate cost per execute, because its dispatch cost
			// includes it.
			ratio := p.GenericCost(name, m).Pass(1, 1100, 0, 1) / listed.Pass(1, 1100, 2, 1)
			require.Greater(t, ratio, 0.95-0.005, "%s %s", device, name)
			require.Less(t, ratio, up+0.005, "%s %s", device, name)
		}
	}
}

func TestDevicesAndVariants(t *testing.T) {
	require.Equal(t, []string{"estimated-sm8550", "estimated-sm8650", "estimated-sm8750", "sd8elite", "sd8gen2", "sd8gen3"}, DeviceNames())
	base := cost(t, "sd8gen2", "qwen2.5-1.5b")
	fast := cost(t, "sd8gen2+fast-load", "qwen2.5-1.5b")
	require.Equal(t, base.Model, fast.Model)
	require.Equal(t, 2.9, fast.Profile.Load.BandwidthGBps)
	require.Equal(t, base.Profile.Load.LatencyMs, fast.Profile.Load.LatencyMs)
	require.InDelta(t, 88.3, cost(t, "sd8gen2+fit-sam", "qwen2.5-1.5b").Pass(32, 1100, 2, 32), 0.05)

	for name, want := range map[string]error{
		"sd8gen9":      ErrDevice,
		"sd8gen2+slow": ErrDevice,
		"sd8gen2+":     ErrDevice,
		"../devices/x": ErrDevice,
		// the variant xiaomi-14 holds figures of the llm.npu paper and does not describe a
		// device
		"sd8gen3+xiaomi-14": ErrProfile,
	} {
		_, err := Device(name)
		require.ErrorIs(t, err, want, name)
	}
	p, err := Device("sd8gen2")
	require.NoError(t, err)
	_, err = p.Cost("gpt-7")
	require.ErrorIs(t, err, ErrModel)
}

func TestImpossibleProfilesAreRejected(t *testing.T) {
	data, err := deviceFiles.ReadFile("devices/sd8gen2.json")
	require.NoError(t, err)
	for _, change := range [][2]string{
		{`"kind": "fitted"`, `"kind": "guessed"`},
		{`"tile_rows": 32`, `"tile_rows": 0`},
		{`"bandwidth_gbps": 0.917`, `"bandwidth_gbps": 0`},
		{`"compute_slowdown_while_loading": 1.0`, `"compute_slowdown_while_loading": 0.9`},
		{`"tile_ms": 7.348`, `"tile_ms": -1`},
		{`"body_bytes": 357826560`, `"body_bytes": 0`},
		{`"rpc_ms": 0.3`, `"rpc": 0.3`},
	} {
		bad := strings.Replace(string(data), change[0], change[1], 1)
		require.NotEqual(t, string(data), bad, change[0])
		_, err := ParseProfile([]byte(bad))
		require.ErrorIs(t, err, ErrProfile, change[1])
	}
}
