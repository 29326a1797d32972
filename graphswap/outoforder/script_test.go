package outoforder_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/graphswap/outoforder"
	"github.com/sdnpu/sdnpu/internal/golden"
)

// TestScheduleScripts runs the scripts in testdata/schedules; README.md there explains the
// commands.
func TestScheduleScripts(t *testing.T) {
	golden.Run(t, "testdata/schedules/*.txt", func() func(*testing.T, golden.Command) string {
		var p *outoforder.Problem
		return func(t *testing.T, c golden.Command) string {
			switch c.Name {
			case "prompt":
				p = scriptProblem(t, c)
				ms := func(d time.Duration) int64 { return d.Milliseconds() }
				return fmt.Sprintf("NPU %d, CPU %d, lower bound %d", ms(p.Load(graphswap.NPU)), ms(p.Load(graphswap.CPU)), ms(p.Bound()))
			case "schedule":
				if c.Operands[0] == "shortest" {
					s := p.Shortest()
					return s.Policy.String() + "\n" + describe(t, p, s)
				}
				policy, err := outoforder.ParsePolicy(c.Operands[0])
				require.NoError(t, err)
				return describe(t, p, p.Schedule(policy))
			}
			t.Fatalf("unknown command %q", c.Name)
			return ""
		}
	})
}

// scriptProblem reads a prompt: one line for each stage of a layer.
func scriptProblem(t *testing.T, c golden.Command) *outoforder.Problem {
	chunks := c.Int(t, "chunks", 1)
	var layer []outoforder.Stage
	for i, line := range c.Lines {
		words := golden.Parse(line)
		s := outoforder.Stage{Name: words.Name, Past: slices.Contains(words.Operands, "past")}
		require.NoError(t, s.Lane.UnmarshalText([]byte(words.Operands[0])))
		if i > 0 {
			s.After = []int{i - 1}
		}
		if after, given := words.Values["after"]; given {
			s.After = nil
			for name := range strings.FieldsFuncSeq(after, func(r rune) bool { return r == ',' }) {
				s.After = append(s.After, slices.IndexFunc(layer, func(s outoforder.Stage) bool { return s.Name == name }))
			}
		}
		times := strings.Split(words.Values["ms"], ",")
		for c := range chunks {
			ms, err := strconv.Atoi(times[min(c, len(times)-1)])
			require.NoError(t, err)
			s.Times = append(s.Times, time.Duration(ms)*time.Millisecond)
		}
		layer = append(layer, s)
	}
	p, err := outoforder.New(outoforder.Repeat(layer, c.Int(t, "layers", 1)), c.Int(t, "window", 0))
	require.NoError(t, err)
	return p
}

// describe prints the tasks of a schedule, and the times in which the NPU is idle.
func describe(t *testing.T, p *outoforder.Problem, s *outoforder.Schedule) string {
	require.NoError(t, p.Check(s))
	var b strings.Builder
	var npuFree time.Duration
	for _, task := range s.Tasks {
		stage := p.Stages()[task.Stage]
		idle := ""
		if stage.Lane == graphswap.NPU {
			if wait := task.Start - npuFree; wait > 0 {
				idle = fmt.Sprintf(", NPU idle for %d", wait.Milliseconds())
			}
			npuFree = task.End
		}
		lane := stage.Lane.String()
		if stage.Lane == graphswap.CPU {
			lane = "    " + lane
		}
		fmt.Fprintf(&b, "%3d-%-3d %-7s  chunk %d layer %d %s%s\n", task.Start.Milliseconds(), task.End.Milliseconds(), lane, task.Chunk, stage.Layer, stage.Name, idle)
	}
	fmt.Fprintf(&b, "ends at %d; NPU idle for %.0f %%", s.Makespan.Milliseconds(), 100*s.Idle)
	return b.String()
}
