package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/graphswap"
)

// knownCosts are those of a device with room for window bytes: two blocks of
// 1000 bytes a graph, whose wide graph computes 12 rows in the time of 2 passes
// through the narrow one of 4. A load takes twice that.
func knownCosts(windowGB float64) *graphswap.Cost {
	m := graphswap.Model{Layers: 5, BodyBytes: 2000}
	for range 2 {
		m.Blocks = append(m.Blocks, graphswap.MeasuredGraph{Widths: map[int]graphswap.MeasuredWidth{
			12: {LoadMs: 20, RunMs: 10, Bytes: 1000}, 4: {LoadMs: 20, RunMs: 5, Bytes: 1000},
		}})
	}
	m.Head = &graphswap.MeasuredGraph{Widths: map[int]graphswap.MeasuredWidth{4: {RunMs: 1}}}
	p := &graphswap.Profile{Kind: graphswap.Measured, ID: "known", Memory: graphswap.Memory{WindowGB: windowGB}}
	p.Compute.TileRows, p.Compute.RowContextRef, p.Load.BandwidthGBps = 1, 1, 1
	return &graphswap.Cost{Profile: p, Name: "known", Model: m}
}

// narrow holds one graph of each block and no other beside.
const narrow = 2500e-9

func TestAutoTakesWhatTheDeviceAllows(t *testing.T) {
	for _, test := range []struct {
		name  string
		apart bool
		costs *graphswap.Cost
		want  string
		plans []string
		says  string
	}{
		{"shared", false, nil, graphswap.PlanShared, []string{graphswap.PlanShared}, "share their weights"},
		{"room for both", true, knownCosts(1), graphswap.PlanBoth, []string{graphswap.PlanBoth}, "both graphs of every block fit"},
		{"room for one", true, knownCosts(narrow), engine.PlanAuto, []string{graphswap.PlanDescent}, "only one of the two graphs fits"},
		{
			"measured", true, nil, engine.PlanAuto,
			[]string{graphswap.PlanDescent, graphswap.PlanG1, graphswap.PlanG2},
			"nothing is known of memory",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dev := newDevice()
			dev.apart = test.apart
			e, _ := start(t, dev, engine.Options{Plan: engine.PlanAuto, Rows: []int{12, 4}, Blocks: 2, Context: 96, Costs: test.costs})
			r := generate(t, e, story(60), 8)
			require.Equal(t, test.want, r.Residency)
			require.Contains(t, test.plans, r.Plan.Name)
			require.Contains(t, r.Plan.Reason, test.says)
		})
	}
}

func TestAutoRefusesNoWidths(t *testing.T) {
	for _, rows := range [][]int{{8}, {12, 8}, {16, 8, 4}} {
		for _, exact := range []bool{false, true} {
			for _, apart := range []bool{false, true} {
				dev := newDevice()
				dev.apart = apart
				o := engine.Options{Plan: engine.PlanAuto, Rows: rows, Exact: exact, Context: 64}
				_, err := engine.Look(dev, openModel(t), o)
				require.NoError(t, err)
				e, _ := start(t, dev, o)
				r := generate(t, e, story(20), 4)
				require.Equal(t, map[bool]string{false: graphswap.PlanShared, true: graphswap.PlanBoth}[apart], r.Residency)
				require.Equal(t, fmt.Sprintf("widths %v are none that plans exchange, two of which the first is a multiple of the second: every graph stays", rows), r.Plan.Reason)
				require.Equal(t, exact, r.Lossless.Exact)
				require.NoError(t, e.Close())
			}
		}
	}
}

// TestWhatFindsRoomIsNotWhatThereIs: where auto keeps every graph, a plan that never
// does is named.
func TestWhatFindsRoomIsNotWhatThereIs(t *testing.T) {
	for apart, plan := range map[bool]string{true: "auto", false: "descent"} {
		dev := newDevice()
		dev.apart = apart
		dev.onLoad = func() error { return backend.ErrNoMemory }
		says := func(o engine.Options, want string) {
			t.Helper()
			o.Context = 64
			_, _, err := open(t, t.Context(), dev, o)
			require.ErrorContains(t, err, "memory: "+want)
		}
		says(engine.Options{Rows: []int{16, 8}}, "plan "+plan+" keeps one graph")
		says(engine.Options{Plan: engine.PlanAuto, Rows: []int{8}}, "on widths such as 128,32 plan "+plan+" keeps one graph")
		for _, rows := range [][]int{{8}, {16, 8}} {
			says(engine.Options{Plan: engine.PlanAuto, Rows: rows, Exact: true}, "without an exact width, on widths such as 128,32, plan "+plan+" keeps one graph")
		}
		says(engine.Options{Plan: engine.PlanAuto, Rows: []int{12, 4}, Blocks: 2, Costs: knownCosts(1)}, "plan descent keeps one graph")
	}
}

// TestAutoChoosesForEachTurn: a conversation's first prompt finds wide graphs,
// the others what the turn before has left. What is to be chosen follows from
// [knownCosts]: 40 tokens take 80 ms on wide graphs and 100 on narrow ones, a
// token of an answer 20 and 10; a load 20.
func TestAutoChoosesForEachTurn(t *testing.T) {
	ours, own := newDevice(), newDevice()
	ours.apart, own.apart = true, true
	for name, dev := range map[string]backend.Device{"our clock": ours, "a clock of its own": clocked{own}} {
		t.Run(name, func(t *testing.T) { chooseForEachTurn(t, dev) })
	}
}

func chooseForEachTurn(t *testing.T, dev backend.Device) {
	plain, _ := start(t, newDevice(), engine.Options{Rows: []int{12, 4}, Blocks: 1, Context: 240, FirstContext: 240})
	e, _ := start(t, dev, engine.Options{
		Plan: engine.PlanAuto, Rows: []int{12, 4}, Blocks: 2, Context: 240, FirstContext: 240, Costs: knownCosts(narrow),
	})
	text, later := []int32(nil), 0
	for i, turn := range []struct {
		prompt, output int
		plan, says     string
		loads          int
		after          graphswap.Graph
	}{
		{6, 1, graphswap.PlanG1, "an answer of some 1 tokens is not worth a load", 0, graphswap.G1},
		{40, 20, graphswap.PlanDescent, "40 tokens are worth 2 loads in 2 blocks", 2, graphswap.G2},
		{4, 12, graphswap.PlanG2, "the graphs of 4 rows beat loading those of 12", 0, graphswap.G2},
		{96, 12, graphswap.PlanDescent, "tokens are worth 4 loads in 2 blocks", 4, graphswap.G2},
	} {
		text = append(text, story(turn.prompt)[1:]...)
		ask := engine.Request{Prompt: append([]int32{1}, text...), MaxTokens: turn.output, IgnoreEOS: true, CachePrompt: true}
		got, err := e.Generate(t.Context(), ask, func(engine.Piece) error { return nil })
		require.NoError(t, err)
		want, err := plain.Generate(t.Context(), ask, func(engine.Piece) error { return nil })
		require.NoError(t, err)
		require.Equal(t, want.Output, got.Output, "turn %d", i)
		require.Equal(t, turn.plan, got.Plan.Name, "turn %d: %s", i, got.Plan.Reason)
		require.Contains(t, got.Plan.Reason, turn.says)
		require.Len(t, got.Plan.Timeline.Plan.Loads, turn.loads)
		done, err := e.PlanDone(t.Context())
		require.NoError(t, err)
		require.Empty(t, done.Failed)
		for i := range done.Timeline.Tasks { // images of this model are not of the known sizes
			done.Timeline.Tasks[i].Bytes = min(done.Timeline.Tasks[i].Bytes, 1000)
		}
		done.Timeline.Sum(done.Problem)
		require.NoError(t, done.Timeline.Check(done.Problem))
		require.Equal(t, []graphswap.Graph{turn.after, turn.after}, e.Residency())
		require.Equal(t, readCache(t, plain), readCache(t, e))
		later += got.CachedTokens
		text = append(text, got.Output...)
	}
	require.Positive(t, later, "turns that build on those before")
}

// TestPlansBesideOthersSayWhyTheyDiffer from what a request alone is told.
func TestPlansBesideOthersSayWhyTheyDiffer(t *testing.T) {
	const why = "because other requests are under way"
	for _, test := range []struct {
		plan, alone, beside string
		says                []string
	}{
		{graphswap.PlanDescent, graphswap.PlanDescent, graphswap.PlanDescentInOrder, []string{why}},
		{graphswap.PlanExact, graphswap.PlanExact, graphswap.PlanExactInOrder, []string{why}},
		{engine.PlanAuto, graphswap.PlanDescent, graphswap.PlanDescentInOrder, []string{"60 tokens are worth", why}},
		{graphswap.PlanSync, graphswap.PlanSync, graphswap.PlanSync, nil},
	} {
		dev := newDevice()
		dev.apart = true
		e, _ := start(t, dev, engine.Options{
			Plan: test.plan, Rows: []int{12, 4}, Blocks: 2, Context: 128, FirstContext: 128, Sequences: 2, Costs: knownCosts(narrow),
		})
		ask := func(emit func()) *engine.PlanReport {
			r, err := e.Generate(t.Context(), engine.Request{Prompt: story(60), MaxTokens: 12, IgnoreEOS: true}, func(engine.Piece) error {
				emit()
				return nil
			})
			require.NoError(t, err)
			e.WaitForLoads()
			return r.Plan
		}
		var beside *engine.PlanReport
		alone := ask(func() {
			if beside == nil { // the request waits meanwhile, with its sequence
				e.WaitForLoads()
				beside = ask(func() {})
			}
		})
		for _, r := range []*engine.PlanReport{alone, ask(func() {})} {
			require.Equal(t, test.alone, r.Name, r.Reason)
			require.NotContains(t, r.Reason, why)
		}
		require.Equal(t, test.beside, beside.Name)
		for _, says := range test.says {
			require.Contains(t, beside.Reason, says)
		}
		require.Equal(t, test.says == nil, beside.Reason == alone.Reason)
		if test.says != nil {
			require.NotContains(t, beside.Reason, "baseline", "that is said of a plan that somebody named")
		}
	}
}

// TestTimelinesHoldTheDecodePasses with all of their rows, beside the plan's
// steps and loads.
func TestTimelinesHoldTheDecodePasses(t *testing.T) {
	mode, err := draft.Parse("sam")
	require.NoError(t, err)
	dev := newDevice()
	dev.apart = true
	e, _ := start(t, dev, engine.Options{Plan: graphswap.PlanNaive, Rows: []int{12, 4}, Blocks: 2, Context: 128, FirstContext: 128, Draft: mode})
	prompt := append(story(30), story(30)...)
	r := generate(t, e, prompt, 40)
	var sum struct{ passes, valid, wasted, rows int }
	ended := r.Plan.Timeline.PrefillMs
	for _, task := range r.Plan.Timeline.Tasks {
		if task.Kind != graphswap.Verify {
			continue
		}
		require.GreaterOrEqual(t, task.StartMs, ended)
		ended = task.EndMs
		sum.passes, sum.valid, sum.wasted, sum.rows = sum.passes+1, sum.valid+task.Valid, sum.wasted+task.Wasted, sum.rows+task.Rows
	}
	require.Positive(t, r.DraftedRows)
	require.Equal(t, r.DecodeSteps, sum.passes)
	require.Equal(t, r.OutputTokens-1, sum.valid)
	require.Equal(t, r.DraftedRows-r.AcceptedRows, sum.wasted)
	require.Equal(t, 4*r.DecodeSteps, sum.rows, "passes on narrow graphs")
	require.NoError(t, r.Plan.Timeline.Check(r.Plan.Problem))
	done, err := e.PlanDone(t.Context())
	require.NoError(t, err)
	require.Equal(t, r.Plan.Timeline.Tasks, done.Timeline.Tasks, "nothing is written down twice")
}
