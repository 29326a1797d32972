package engine_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/internal/golden"
)

// TestSwitchScripts runs the scripts in testdata/switch; README.md there explains the
// commands.
func TestSwitchScripts(t *testing.T) {
	golden.Run(t, "testdata/switch/*.txt", func() func(*testing.T, golden.Command) string { return new(switchScript).run })
}

// switchScript holds the engine, device and text of a test script's commands.
type switchScript struct {
	engine *engine.Engine
	device *scriptDevice
	text   []int32
}

// run executes a command and returns its output.
func (s *switchScript) run(t *testing.T, c golden.Command) string {
	number := func(key string) int {
		require.Contains(t, c.Values, key)
		return c.Int(t, key, 0)
	}
	switch c.Name {
	case "engine":
		s.device = &scriptDevice{Device: newDevice(), times: map[int]int{12: number("prefill"), 4: number("decode")}, load: number("load")}
		s.engine, _ = start(t, s.device, engine.Options{
			Plan: c.Values["plan"], Rows: []int{12, 4}, Blocks: number("blocks"), Context: 240, FirstContext: 240,
		})
	case "prompt":
		s.device.calls = nil
		return s.prompt(t, number("tokens"), number("answer"))
	default:
		t.Fatalf("unknown command %q", c.Name)
	}
	return s.device.list() + s.resident()
}

// prompt appends tokens to the conversation, generates an answer, and returns the
// timeline of the plan and the calls of the device.
func (s *switchScript) prompt(t *testing.T, tokens, answer int) string {
	s.text = append(s.text, story(tokens + 1)[1:]...)
	r, err := s.engine.Generate(t.Context(), engine.Request{
		Prompt: append([]int32{1}, s.text...), MaxTokens: answer, IgnoreEOS: true, CachePrompt: true,
	}, func(engine.Piece) error { return nil })
	require.NoError(t, err)
	s.text = append(s.text, r.Output...)
	var b strings.Builder
	fmt.Fprintf(&b, "plan %s\n", r.Plan.Name)
	tasks := slices.DeleteFunc(slices.Clone(r.Plan.Timeline.Tasks), func(task graphswap.Task) bool { return task.Lane == graphswap.CPU })
	slices.SortStableFunc(tasks, func(x, y graphswap.Task) int { return cmp.Compare(x.StartMs, y.StartMs) })
	for _, task := range tasks {
		if task.Kind == graphswap.Verify { // the times of verification depend on the CPU
			continue
		}
		fmt.Fprintf(&b, "%3.0f-%-4.0f %-4s ", task.StartMs, task.EndMs, task.Lane)
		switch {
		case task.Kind == graphswap.Create:
			fmt.Fprintf(&b, "load block %d %s\n", task.Block, task.Variant)
		case task.Block >= 0:
			fmt.Fprintf(&b, "chunk %d block %d %s\n", task.Chunk, task.Block, task.Variant)
		default:
			fmt.Fprintf(&b, "%s\n", task.Kind)
		}
	}
	return b.String() + s.device.list() + s.resident()
}

func (s *switchScript) resident() string {
	var list []string
	for _, v := range s.engine.Residency() {
		list = append(list, v.String())
	}
	return "loaded: " + strings.Join(list, ", ")
}

// scriptDevice is a device in virtual time that lists its calls. Each width has its own time
// for the run of a block graph, a run of the head takes 1 ms, and all loads take equally long.
type scriptDevice struct {
	backend.Device
	times map[int]int
	load  int
	calls []string
}

func (d *scriptDevice) Capabilities() backend.Capabilities {
	c := d.Device.Capabilities()
	c.SharesConstants = false
	return c
}

func (d *scriptDevice) Load(ctx context.Context, image backend.Image) (backend.Program, error) {
	p, err := d.Device.Load(ctx, image)
	if err != nil {
		return nil, err
	}
	program := &scriptProgram{Program: p, device: d}
	for block := range 5 {
		for rows := range d.times {
			for first := range 6 {
				graph := fmt.Sprintf("block%d_rows%d_layers%dof5", block, rows, first)
				if _, err := p.Signature(graph); err == nil {
					program.name, program.ms = fmt.Sprintf("block %d %s", block, map[int]string{12: "prefill", 4: "decode"}[rows]), d.times[rows]
				}
			}
		}
	}
	if program.name == "" {
		program.name, program.ms = "head", 1
	}
	d.calls = append(d.calls, "load "+program.name)
	return program, nil
}

// list returns the calls of the device, one per line; a call that is repeated appears once,
// with its count.
func (d *scriptDevice) list() string {
	var b strings.Builder
	for i := 0; i < len(d.calls); {
		n := 1
		for i+n < len(d.calls) && d.calls[i+n] == d.calls[i] {
			n++
		}
		b.WriteString("  " + d.calls[i])
		if n > 1 {
			fmt.Fprintf(&b, " x%d", n)
		}
		b.WriteByte('\n')
		i += n
	}
	return b.String()
}

type scriptProgram struct {
	backend.Program
	device *scriptDevice
	name   string
	ms     int
	closed bool
}

func (p *scriptProgram) Run(ctx context.Context, graph string, bindings []backend.Binding) error {
	p.device.calls = append(p.device.calls, "run  "+p.name)
	return p.Program.Run(ctx, graph, bindings)
}

func (p *scriptProgram) Close() error {
	if !p.closed {
		p.device.calls = append(p.device.calls, "free "+p.name)
	}
	p.closed = true
	return p.Program.Close()
}

func (p *scriptProgram) LoadCost() backend.Cost {
	return backend.Cost{Took: time.Duration(p.device.load) * time.Millisecond, Virtual: true}
}

func (p *scriptProgram) RunCost() backend.Cost {
	return backend.Cost{Took: time.Duration(p.ms) * time.Millisecond, Virtual: true}
}
