package graphswap

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// expectation is a row of testdata/expected_sim.json: what a second
// implementation of the formulas and of the published rules gave.
type expectation struct {
	Device, Model, Case, Metric string
	Value                       float64
	TolerancePct                float64 `json:"tolerance_pct"`
	Config                      struct {
		Rows, Blocks, N, G1, G2, Prompt, C int
		Context, T, Load                   float64
		Outputs                            int `json:"n_out"`
		Logits                             any
	}
}

func expectations(t testing.TB) []expectation {
	data, err := os.ReadFile("testdata/expected_sim.json")
	require.NoError(t, err)
	var rows []expectation
	require.NoError(t, json.Unmarshal(data, &rows))
	return rows
}

func cost(t testing.TB, device, model string) *Cost {
	p, err := Device(device)
	require.NoError(t, err)
	c, err := p.Cost(model)
	require.NoError(t, err)
	return c
}

func TestFormulasGiveTheExpectedTimes(t *testing.T) {
	seen := 0
	for _, e := range expectations(t) {
		var got float64
		switch {
		case strings.HasPrefix(e.Metric, "pass_ms."):
			got = cost(t, e.Device, e.Model).Pass(e.Config.Rows, e.Config.Context, e.Config.Blocks, e.Config.Rows)
		case strings.HasPrefix(e.Metric, "load_ms."):
			c := cost(t, e.Device, e.Model)
			got = c.Load(float64(c.Model.BodyBytes) / float64(e.Config.N))
		case e.Case == "peak memory, replace":
			got = cost(t, e.Device, e.Model).PeakGB(0)
		case e.Case == "peak memory, shadow":
			got = cost(t, e.Device, e.Model).PeakGB(1 / float64(e.Config.N))
		default:
			continue
		}
		seen++
		// The rows have three digits behind the point; the formulas are exact.
		require.InDelta(t, e.Value, got, 6e-4, "%+v", e)
	}
	require.Equal(t, 107, seen)
}

// TestHeadsTakeTheirGraphs: of widths that are told the narrowest one that holds
// what is left of a chunk's rows, else the widest, whatever graph the block has.
func TestHeadsTakeTheirGraphs(t *testing.T) {
	c := cost(t, "sd8gen2", "qwen2.5-1.5b")
	rng := rand.New(rand.NewPCG(7, 3))
	for range 300 {
		r := Request{Blocks: 1 + rng.IntN(4), Rows2: 1 + rng.IntN(40), Prompt: 1 + rng.IntN(300)}
		r.Rows1 = r.Rows2 * (1 + rng.IntN(8))
		bare, err := c.Problem(r)
		require.NoError(t, err)
		for i := range bare.Chunks { // without any head
			bare.P[i][r.Blocks-1] -= float64((i+1)/len(bare.Chunks)) * c.Head(1)
			bare.D[i][r.Blocks-1] -= float64((i+1)/len(bare.Chunks)) * c.Head(1)
		}
		r.AllLogits, r.Heads = true, []int{1 + rng.IntN(20)}
		if rng.IntN(2) == 0 {
			r.Heads = append(r.Heads, r.Heads[0]+1+rng.IntN(100))
		}
		p, err := c.Problem(r)
		require.NoError(t, err)
		narrow, wide := r.Heads[0], r.Heads[len(r.Heads)-1]
		for i, tokens := range p.Chunks {
			head := float64(tokens/wide) * c.Head(wide)
			if left := tokens % wide; left > narrow {
				head += c.Head(wide)
			} else if left > 0 {
				head += c.Head(narrow)
			}
			require.InDelta(t, head, p.P[i][r.Blocks-1]-bare.P[i][r.Blocks-1], 1e-6, "%+v", r)
			require.InDelta(t, head, p.D[i][r.Blocks-1]-bare.D[i][r.Blocks-1], 1e-6, "%+v", r)
		}
	}
	for _, heads := range [][]int{{0}, {-8, 3}, {8, 8}, {32, 8}, {1 << 30}} {
		_, err := c.Problem(Request{Blocks: 1, Rows1: 32, Rows2: 8, Prompt: 9, Heads: heads})
		require.ErrorIs(t, err, ErrRequest, "%v", heads)
	}
}

// TestHeadsThatWereNotMeasuredTakeWhatOthersDid: a profile without drafts knows the
// narrow one alone.
func TestHeadsThatWereNotMeasuredTakeWhatOthersDid(t *testing.T) {
	c := cost(t, "sd8gen2", "qwen2.5-1.5b")
	c.Model.Head = &MeasuredGraph{Widths: map[int]MeasuredWidth{8: {RunMs: 5}, 32: {RunMs: 7}}}
	for rows, want := range map[int]float64{1: 5, 8: 5, 9: 7, 32: 7, 33: 14, 256: 56} {
		require.Equal(t, want, c.headRun(rows), "%d rows", rows)
	}
}

func TestGenericCostsAreNearTheListedOnes(t *testing.T) {
	for device, up := range map[string]float64{"sd8gen2": 1.10, "sd8elite": 1.10, "sd8gen3": 1.17} {
		p, err := Device(device)
		require.NoError(t, err)
		for name, m := range p.Models {
			listed, err := p.Cost(name)
			require.NoError(t, err)
			// The generic fit has no cost per execute; its dispatch holds it.
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
		"sd8gen9":           ErrDevice,
		"sd8gen2+slow":      ErrDevice,
		"sd8gen2+":          ErrDevice,
		"../devices/x":      ErrDevice,
		"sd8gen3+xiaomi-14": ErrProfile, // figures of another paper, no device
	} {
		_, err := Device(name)
		require.ErrorIs(t, err, want, name)
	}
	p, err := Device("sd8gen2")
	require.NoError(t, err)
	_, err = p.Cost("gpt-7")
	require.ErrorIs(t, err, ErrModel)
}

func TestProfilesThatMakeNoSenseAreRefused(t *testing.T) {
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
