package lanes

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/sparse"
)

// line is a time that consists of a constant and a part in proportion to the keys.
type line struct{ constant, slope float64 }

func (l line) at(keys int) float64 { return l.constant + l.slope*float64(keys) }

// outcome holds the times of all passes of a prompt: of automatic choices, and of both ways alone.
type outcome struct {
	auto   float64
	always [numberOfWays]float64
	runs   [numberOfWays]int
	trials float64 // trials is the sum of the largest differences of both ways in each group of key counts
	most   float64 // most is the largest difference
}

// add counts a pass.
func (o *outcome) add(w way, times [numberOfWays]float64) {
	o.auto += times[w]
	o.runs[w]++
	for w, took := range times {
		o.always[w] += took
	}
}

// excess returns the time that automatic choices took longer than 1.01 times the better way.
func (o *outcome) excess() float64 { return o.auto - 1.01*min(o.always[onDevice], o.always[onHost]) }

// answerPrompt runs the passes of a prompt. Each time differs from its line by a share of at most `noise`.
func answerPrompt(rng *rand.Rand, c *choice, lines [numberOfWays]line, rows, length int, noise float64) (o outcome) {
	groups := make(map[int]float64)
	for keys := rows; keys <= length; keys += rows {
		if keys <= DenseKeys {
			continue
		}
		var times [numberOfWays]float64
		for w, l := range lines {
			times[w] = l.at(keys)
			if noise > 0 {
				times[w] *= 1 + noise*(2*rng.Float64()-1)
			}
		}
		w := c.choose(keys)
		c.learn(w, keys, time.Duration(times[w]))
		o.add(w, times)
		d := math.Abs(times[onDevice] - times[onHost])
		groups[keys/keysOfGroup] = max(groups[keys/keysOfGroup], d)
		o.most = max(o.most, d)
	}
	for _, d := range groups {
		o.trials += d
	}
	return o
}

// drawLines draws the times of both ways, in nanoseconds.
func drawLines(rng *rand.Rand) (lines [numberOfWays]line) {
	for w := range lines {
		lines[w] = line{1e6 * rng.Float64() * float64(rng.IntN(3)), 2000 * rng.Float64()}
	}
	return lines
}

// TestAutomaticChoicesLoseAtMostTheirTrials compares the time of prompts of all lengths with the better way.
// The excess over 1.01 times its time is at most one trial for each group of key counts. Prompts of less than
// 1024 tokens have so few passes that one more may run in the slower way.
func TestAutomaticChoicesLoseAtMostTheirTrials(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		lines, rows, c := drawLines(rng), []int{32, 64, 128, 256}[rng.IntN(4)], new(choice)
		for range 2 { // the second prompt profits from the first one
			length := 300 + rng.IntN(16000)
			o := answerPrompt(rng, c, lines, rows, length, 0)
			limit := o.trials
			if length < 1024 {
				limit += o.most
			}
			require.LessOrEqual(t, o.excess(), limit, "%v, %d rows, %d tokens: %+v", lines, rows, length, o)
		}
	}
}

// TestNoiseCostsNoMoreThanTrials lets all times differ from their lines by up to 30 %.
func TestNoiseCostsNoMoreThanTrials(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		lines := drawLines(rng)
		o := answerPrompt(rng, new(choice), lines, 128, 8192, 0.3)
		require.LessOrEqual(t, o.excess(), o.trials, "%v: %+v", lines, o)
	}
}

// TestAClearLoserIsRarelyTried counts the passes of a way that takes at least twice the time at all lengths.
func TestAClearLoserIsRarelyTried(t *testing.T) {
	const length, rows = 16384, 128
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		lines := drawLines(rng)
		loser := onHost
		if rng.IntN(2) == 0 {
			loser = onDevice
		}
		factor := 2 + 3*rng.Float64()
		winner := 1 - loser
		lines[loser] = line{factor * lines[winner].constant, factor * lines[winner].slope}
		c := new(choice)
		o := answerPrompt(rng, c, lines, rows, length, 0)
		require.LessOrEqual(t, o.runs[loser], 2+int(math.Log2(length/DenseKeys)), "%v", lines)
		require.LessOrEqual(t, answerPrompt(rng, c, lines, rows, length, 0).runs[loser], 1, "the next prompt knows the times")
	}
}

// TestATrialCorrectsAWrongSlope begins with two times of the host that noise has made grow with the keys. In
// fact they are constant, so the host is faster with many keys.
func TestATrialCorrectsAWrongSlope(t *testing.T) {
	const length, rows = 16384, 128
	c := new(choice)
	c.learn(onHost, 384, 6e6)
	c.learn(onHost, 512, 8e6)
	o := answerPrompt(nil, c, [numberOfWays]line{{0, 2000}, {7e6, 0}}, rows, length, 0)
	require.LessOrEqual(t, o.excess(), o.trials)
	require.Greater(t, o.runs[onHost], length/rows*2/3, "%+v", o)
}

// charged is a device with a virtual clock.
type charged struct {
	backend.Device
	cost func(graph string) time.Duration
}

type chargedProgram struct {
	backend.Program
	of   *charged
	last time.Duration
}

func (d *charged) Load(ctx context.Context, image backend.Image) (backend.Program, error) {
	p, err := d.Device.Load(ctx, image)
	return &chargedProgram{Program: p, of: d}, err
}

func (p *chargedProgram) Run(ctx context.Context, graph string, b []backend.Binding) error {
	p.last = p.of.cost(graph)
	return p.Program.Run(ctx, graph, b)
}

func (*chargedProgram) LoadCost() backend.Cost  { return backend.Cost{Virtual: true} }
func (p *chargedProgram) RunCost() backend.Cost { return backend.Cost{Virtual: true, Took: p.last} }

// TestAutoTakesTheFasterWayOfAPrompt runs the passes of a prompt on a virtual clock, on devices on which
// attention on the host is faster, slower, or faster with many keys. The device takes minutes, so that the
// measured times of the host do not count.
func TestAutoTakesTheFasterWayOfAPrompt(t *testing.T) {
	const past, step = 2560, 32
	minute := float64(time.Minute)
	for name, one := range map[string]struct {
		lines [numberOfWays]line
		slow  int64 // slow is the largest number of passes in the slower way
	}{
		"host faster":   {[numberOfWays]line{{0, minute}, {100 * minute, minute / 4}}, 2},
		"host slower":   {[numberOfWays]line{{100 * minute, minute}, {300 * minute, 3 * minute}}, 2},
		"host, at last": {[numberOfWays]line{{0, minute}, {1000 * minute, minute / 4}}, past},
	} {
		t.Run(name, func(t *testing.T) {
			c := drawCase(rand.New(rand.NewPCG(17, 18)), past, past)
			keys := 0
			inner := &charged{Device: cpu.New(cpu.Options{}), cost: func(graph string) time.Duration {
				switch {
				case isScores(graph):
					return 0
				case strings.HasSuffix(graph, denseSuffix):
					return time.Duration(one.lines[onDevice].at(keys))
				}
				return time.Duration(one.lines[onHost].at(keys) / 2) // one of two parts
			}}
			d := New(inner, &columns{})
			d.attention = Attention{Ratio: 0.2, Rule: sparse.DefaultRule, Auto: true}
			g := c.graph(t, true)
			var image bytes.Buffer
			require.NoError(t, d.Compile(t.Context(), &image, g))
			p, err := d.Load(t.Context(), backend.Image{Bytes: image.Bytes(), Own: true})
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			bindings := c.bind(t, d, p, g.Name)
			s, err := p.Signature(g.Name)
			require.NoError(t, err)
			mask := bindings[slices.IndexFunc(s.Inputs, func(p backend.Port) bool { return p.Name == "mask" })].Buffer
			var o outcome
			var trials float64
			for keys = DenseKeys + step; keys < past; keys += step {
				line := c.inputs["mask"][:past] // the first row sees the new token and all past ones but the hidden ones
				for slot := range line {
					line[slot] = 0
					if slot >= keys-1 {
						line[slot] = -65504
					}
				}
				for r := range c.groups * c.rows {
					copy(c.inputs["mask"][r*(past+c.rows):][:past], line)
				}
				encodeFloats(mask.Bytes(), c.inputs["mask"], c.kind)
				require.NoError(t, p.Run(t.Context(), g.Name, bindings))
				took := float64(p.(backend.Timed).RunCost().Took)
				times := [numberOfWays]float64{one.lines[onDevice].at(keys), one.lines[onHost].at(keys)}
				o.auto += took
				o.always[onDevice], o.always[onHost] = o.always[onDevice]+times[onDevice], o.always[onHost]+times[onHost]
				trials = max(trials, math.Abs(times[onDevice]-times[onHost]))
			}
			require.LessOrEqual(t, o.excess(), trials, "%+v", o)
			work := d.HostWork()
			require.EqualValues(t, (past-1-DenseKeys)/step, work.DensePasses+work.SparsePasses)
			require.LessOrEqual(t, min(work.DensePasses, work.SparsePasses), one.slow)
			require.Positive(t, work.DensePasses)
			require.Positive(t, work.SparsePasses)
		})
	}
}
