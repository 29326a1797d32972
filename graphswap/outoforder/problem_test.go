package outoforder_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
	. "github.com/sdnpu/sdnpu/graphswap/outoforder"
)

func TestImpossibleProblemsAreRejected(t *testing.T) {
	stage := func(change func(*Stage)) []Stage {
		s := Stage{Name: "qkv", Lane: graphswap.NPU, Times: us(2, 1)}
		next := Stage{Name: "ffn", Lane: graphswap.NPU, After: []int{0}, Times: us(2, 1)}
		change(&next)
		return []Stage{s, next}
	}
	many := make([]Stage, 1025)
	for i := range many {
		many[i].Times = us(64, 1)
	}
	wide := make([]Stage, 2000)
	for i := range wide {
		wide[i].Times = us(1, 1)
		for a := range i {
			wide[i].After = append(wide[i].After, a)
		}
	}
	for _, c := range []struct {
		name   string
		stages []Stage
		window int
		want   string
	}{
		{"no stages", nil, 0, "it has no stages"},
		{"no chunks", []Stage{{}}, 0, "it has no chunks"},
		{"window", stage(func(*Stage) {}), -1, "chunk window -1: want 1 or more chunks, or 0 for no bound"},
		{"tasks", many, 0, "1025 stages of 64 chunks: want at most 65536 tasks"},
		{"dependencies", wide, 0, "the tasks have 1999000 dependencies: want at most 1048576"},
		{"window dependencies", []Stage{{Times: us(1<<16, 1)}}, 1, ""},
		{"past", Repeat(Repeat([]Stage{{Past: true, Times: us(300, 1)}}, 1), 30), 0, "the tasks have 1309350 dependencies: want at most 1048576"},
		{"loader", stage(func(s *Stage) { s.Lane = graphswap.IO }), 0, `stage 1 ("ffn"): lane IO: want NPU or CPU`},
		{"layer", stage(func(s *Stage) { s.Layer = -1 }), 0, "layer -1: want 0..65535"},
		{"times", stage(func(s *Stage) { s.Times = us(3, 1) }), 0, "it has times for 3 chunks, and stage 0 for 2: want equal numbers"},
		{"negative time", stage(func(s *Stage) { s.Times[1] = -1 }), 0, "it takes -1ns in chunk 1: want 0..1h0m0s"},
		{"long time", stage(func(s *Stage) { s.Times[0] = math.MaxInt64 }), 0, "in chunk 0: want 0..1h0m0s"},
		{"self", stage(func(s *Stage) { s.After = []int{1} }), 0, "it needs the result of stage 1: want a stage before it"},
		{"negative stage", stage(func(s *Stage) { s.After = []int{-1} }), 0, "it needs the result of stage -1: want a stage before it"},
		{"twice", stage(func(s *Stage) { s.After = []int{0, 0} }), 0, "it needs the results of stages 0 and 0: want ascending numbers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(c.stages, c.window)
			if c.want == "" {
				require.NoError(t, err)
				require.NoError(t, p.Check(p.Schedule(FIFO)))
				return
			}
			require.ErrorIs(t, err, ErrProblem)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestPoliciesHaveNames(t *testing.T) {
	for _, policy := range Policies() {
		got, err := ParsePolicy(policy.String())
		require.NoError(t, err)
		require.Equal(t, policy, got)
	}
	_, err := ParsePolicy("random")
	require.ErrorIs(t, err, ErrPolicy)
	require.EqualError(t, err, `outoforder: unknown policy "random": want in_order, chunk_first, fifo, c_rule, longest_path, feed_npu`)
	require.Equal(t, "Policy(9)", Policy(9).String())
}

func TestCheckFindsBrokenSchedules(t *testing.T) {
	p, err := New([]Stage{
		{Name: "qkv", Lane: graphswap.NPU, Times: us(2, 2)},
		{Name: "attention", Lane: graphswap.CPU, After: []int{0}, Past: true, Times: us(2, 2)},
		{Name: "ffn", Lane: graphswap.NPU, After: []int{1}, Times: us(2, 2)},
	}, 0)
	require.NoError(t, err)
	task := func(s *Schedule, chunk, stage int) *Task {
		for i := range s.Tasks {
			if s.Tasks[i].Chunk == chunk && s.Tasks[i].Stage == stage {
				return &s.Tasks[i]
			}
		}
		t.Fatal("no such task")
		return nil
	}
	for _, c := range []struct {
		name   string
		change func(*Schedule)
		want   string
	}{
		{"missing", func(s *Schedule) { s.Tasks = s.Tasks[1:] }, `chunk 0, layer 0, "qkv" does not run`},
		{"twice", func(s *Schedule) { s.Tasks = append(s.Tasks, s.Tasks[0]) }, `chunk 0, layer 0, "qkv" runs twice`},
		{"chunk", func(s *Schedule) { s.Tasks[0].Chunk = 2 }, "chunk 2, stage 0: want a chunk in 0..1 and a stage in 0..2"},
		{"stage", func(s *Schedule) { s.Tasks[0].Stage = -1 }, "chunk 0, stage -1: want"},
		{"start", func(s *Schedule) { s.Tasks[0].Start = -1 }, "from -1ns to 2µs: want times in 0.."},
		{"makespan", func(s *Schedule) { s.Makespan -= 1 }, "want times in 0.."},
		{"lane", func(s *Schedule) { x := task(s, 1, 0); x.Start, x.End = 0, 2 }, "its lane NPU is busy until"},
		{"chunk's own input", func(s *Schedule) { task(s, 0, 1).Start = 0 }, `"attention" starts at 0s, but needs the result of chunk 0, layer 0, "qkv" at 2µs`},
		{"input of an earlier chunk", func(s *Schedule) {
			x, y := task(s, 0, 0), task(s, 1, 0)
			*x, *y = Task{Start: 20 * time.Microsecond, End: 22 * time.Microsecond}, Task{Chunk: 1, End: 2 * time.Microsecond}
			s.Makespan = time.Millisecond
		}, `needs the result of chunk 0, layer 0, "qkv" at 22µs`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := p.Schedule(FeedNPU)
			require.NoError(t, p.Check(s))
			c.change(s)
			err := p.Check(s)
			require.ErrorIs(t, err, ErrSchedule)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// FuzzSchedule makes stages of bytes: four bytes for each stage. Every problem that New
// accepts has valid schedules.
func FuzzSchedule(f *testing.F) {
	f.Add([]byte{1, 0, 0, 3, 0, 1, 1, 5, 1, 2, 3, 2, 0, 4, 1, 9}, uint8(3), int8(2))
	f.Add([]byte{2, 0, 0, 3, 0, 255, 0, 200}, uint8(200), int8(-1))
	f.Fuzz(func(t *testing.T, data []byte, chunks uint8, window int8) {
		var stages []Stage
		for i := 0; i+4 <= len(data) && i < 4*64; i += 4 {
			s := Stage{Lane: graphswap.Lane(data[i] % 3), Past: data[i]&4 != 0, Layer: int(int8(data[i+1]))}
			// each bit selects a stage that this stage needs: one of the eight stages
			// before it, or the invalid number -1
			for a := range 8 {
				if data[i+2]&(1<<a) != 0 {
					s.After = append(s.After, max(len(stages)-8+a, -1))
				}
			}
			for range chunks % 16 {
				s.Times = append(s.Times, time.Duration(int8(data[i+3])))
			}
			stages = append(stages, s)
		}
		p, err := New(stages, int(window))
		if err != nil {
			require.ErrorIs(t, err, ErrProblem)
			return
		}
		for _, policy := range Policies() {
			s := p.Schedule(policy)
			require.NoError(t, p.Check(s))
			require.GreaterOrEqual(t, s.Makespan, p.Bound())
		}
	})
}
