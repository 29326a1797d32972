package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
)

// The options growing give an engine five context tiers.
var growing = engine.Options{Rows: []int{8, 1}, FirstContext: 8, Context: 100, Blocks: 2}

func TestContextTiersDouble(t *testing.T) {
	dev := newDevice()
	var graphs []string
	o := growing
	o.Progress = func(p engine.Progress) {
		if len(graphs) == 0 || graphs[len(graphs)-1] != p.Graph {
			graphs = append(graphs, p.Graph)
		}
	}
	e, tok := start(t, dev, o)
	programs, buffers, first := dev.programs.Load(), dev.buffers.Load(), e.Memory()
	require.Equal(t, 100, e.ContextLength())
	graphs = nil
	fixed := growing
	fixed.FirstContext = 1000
	f, _ := start(t, newDevice(), fixed)
	_, _, want := answer(t, f, engine.Request{Prompt: begin, MaxTokens: 60})
	text, _, report := answer(t, e, engine.Request{Prompt: begin, MaxTokens: 60})
	require.Equal(t, want.Output, report.Output)
	require.Equal(t, tok.Decode(want.Output), text)
	var series []int
	for _, g := range report.Growths {
		series = append(series, g.From, g.To)
	}
	require.Equal(t, []int{8, 16, 16, 32, 32, 64}, series)
	require.Equal(t, 64, report.Context)
	require.Len(t, graphs, 6, "progress of two blocks three times, and not of the head")
	require.Equal(t, programs, dev.programs.Load(), "the shorter graphs are freed")
	require.Equal(t, buffers, dev.buffers.Load())
	require.Greater(t, e.Memory().Cache, 4*first.Cache)

	prompt := append(begin, report.Output[:59]...)
	_, _, report = answer(t, e, engine.Request{Prompt: append(prompt, prompt[1:31]...), MaxTokens: 1, CachePrompt: true})
	require.Equal(t, 60, report.CachedTokens, "the KV cache was copied")
	require.Len(t, report.Growths, 1)
	require.Equal(t, 100, report.Growths[0].To, "the last tier is the context itself")
}

func TestAGrowthSkipsTiersThatAreTooShort(t *testing.T) {
	e, _ := start(t, newDevice(), growing)
	prompt := make([]int32, 40)
	prompt[0] = 1
	_, _, report := answer(t, e, engine.Request{Prompt: prompt, MaxTokens: 2})
	require.Len(t, report.Growths, 1)
	require.Equal(t, 8, report.Growths[0].From)
	require.Equal(t, 64, report.Growths[0].To)
}

// TestAFailedGrowthLeavesTheEngineAsItWas makes a compilation, a load or a buffer fail while
// the context grows, or cancels the request. The request that needs the longer context must end
// with the injected error, the engine must work as before, and the next attempt must succeed.
func TestAFailedGrowthLeavesTheEngineAsItWas(t *testing.T) {
	// each function makes one call fail: for the first block if k is 0, and for the second
	// block if k is 1
	for name, breakIt := range map[string]func(d *device, k int, cancel func()){
		"compile": func(d *device, k int, _ func()) { d.onCompile = func(context.Context) error { return failAt(&k) } },
		"load":    func(d *device, k int, _ func()) { d.onLoad = func() error { return failAt(&k) } },
		"buffer":  func(d *device, k int, _ func()) { d.onBuffer = func() error { return failAt(&k) } },
		"cancelled": func(d *device, k int, cancel func()) {
			d.onCompile = func(ctx context.Context) error {
				if failAt(&k) != nil {
					cancel()
				}
				return ctx.Err()
			}
		},
	} {
		for k := range 2 {
			t.Run(name, func(t *testing.T) {
				dev := newDevice()
				e, _ := start(t, dev, growing)
				programs, buffers, memory := dev.programs.Load(), dev.buffers.Load(), e.Memory()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				breakIt(dev, k, cancel)
				report, err := e.Generate(ctx, engine.Request{Prompt: begin, MaxTokens: 20}, ignorePiece)
				wanted := errFault
				if name == "cancelled" {
					wanted = context.Canceled
				}
				require.ErrorIs(t, err, wanted)
				require.ErrorContains(t, err, "the context could not grow from 8 to 16 tokens")
				require.Equal(t, 8, report.Context)
				require.Empty(t, report.Growths)
				require.Equal(t, 8, report.OutputTokens, "seven fit after the prompt, the next one does not")
				require.Equal(t, programs, dev.programs.Load())
				require.Equal(t, buffers, dev.buffers.Load())
				require.Equal(t, memory, e.Memory())
				require.Len(t, e.Tokens(0), 8, "computed tokens stay")

				dev.onCompile, dev.onLoad, dev.onBuffer = nil, nil, nil
				_, _, again := answer(t, e, engine.Request{Prompt: append(begin, report.Output...), MaxTokens: 12, CachePrompt: true})
				require.Equal(t, 8, again.CachedTokens)
				require.NotEmpty(t, again.Growths)
			})
		}
	}
}

func ignorePiece(engine.Piece) error { return nil }

// roomFor lets the device hold n programs at the same time.
func (d *device) roomFor(n int64) {
	d.onLoad = func() error {
		if d.programs.Load() >= n {
			return backend.ErrNoMemory
		}
		return nil
	}
}

func TestADeviceWithRoomForOneGraphSetSwitchesInPlace(t *testing.T) {
	dev, log := newDevice(), new(bytes.Buffer)
	o := growing
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	e, _ := start(t, dev, o)
	dev.roomFor(dev.programs.Load())
	_, _, report := answer(t, e, engine.Request{Prompt: begin, MaxTokens: 20})
	require.Equal(t, 32, report.Context)
	require.Contains(t, log.String(), "no memory for two sets of graphs")
	require.Contains(t, log.String(), `msg="context grown" from=8 to=16 seconds=`)
	f, _ := start(t, newDevice(), growing)
	_, _, want := answer(t, f, engine.Request{Prompt: begin, MaxTokens: 20})
	require.Equal(t, want.Output, report.Output)
}

func TestAFailedSwitchLoadsTheOldGraphsAgain(t *testing.T) {
	for _, k := range []int{0, 1, 3} { // other requests run while the new graphs are loaded one by one
		dev := newDevice()
		e, _ := start(t, dev, growing)
		full, fresh := dev.programs.Load(), 0
		dev.onLoad = func() error {
			switch {
			case dev.programs.Load() == full:
				return backend.ErrNoMemory
			case fresh == k:
				fresh++
				return errFault
			}
			fresh++
			return nil
		}
		_, err := e.Generate(t.Context(), engine.Request{Prompt: begin, MaxTokens: 20}, ignorePiece)
		require.ErrorIs(t, err, errFault)
		require.Equal(t, full, dev.programs.Load())
		text, _, _ := answer(t, e, engine.Request{Prompt: begin, MaxTokens: 2})
		require.Equal(t, " Once upon", text)
	}
}

func TestAnEngineWithoutGraphsReportsThat(t *testing.T) {
	dev := newDevice()
	e, _, err := open(t, t.Context(), dev, growing)
	require.NoError(t, err)
	full := dev.programs.Load()
	dev.onLoad = func() error {
		if dev.programs.Load() == full {
			return backend.ErrNoMemory
		}
		return errFault
	}
	for range 2 {
		_, err = e.Generate(t.Context(), engine.Request{Prompt: begin, MaxTokens: 20}, ignorePiece)
		require.ErrorIs(t, err, errFault)
		require.ErrorContains(t, err, "no graphs are loaded, so load the model again")
	}
	require.NoError(t, e.Close())
	require.Zero(t, dev.programs.Load())
	require.Zero(t, dev.buffers.Load())
}

func TestOtherRequestsRunWhileOneGrows(t *testing.T) {
	dev := newDevice()
	o := growing
	o.Sequences = 2
	e, _ := start(t, dev, o)
	compiling, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	dev.onCompile = func(context.Context) error {
		once.Do(func() {
			close(compiling)
			<-goOn
		})
		return nil
	}
	grown := make(chan engine.Report, 1)
	go func() {
		report, _ := e.Generate(t.Context(), engine.Request{Prompt: make([]int32, 12), MaxTokens: 1}, ignorePiece)
		grown <- report
	}()
	<-compiling
	text, _, _ := answer(t, e, engine.Request{Prompt: begin, MaxTokens: 2})
	require.Equal(t, " Once upon", text)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Generate(ctx, engine.Request{Prompt: make([]int32, 12), MaxTokens: 1}, ignorePiece)
	require.ErrorIs(t, err, context.Canceled)
	close(goOn)
	require.Equal(t, 16, (<-grown).Context)
}

func TestCloseCancelsAGrowth(t *testing.T) {
	dev := newDevice()
	e, _, err := open(t, t.Context(), dev, growing)
	require.NoError(t, err)
	compiling := make(chan struct{})
	dev.onCompile = func(ctx context.Context) error {
		close(compiling)
		<-ctx.Done()
		return ctx.Err()
	}
	ended := make(chan error)
	go func() {
		_, err := e.Generate(t.Context(), engine.Request{Prompt: make([]int32, 12), MaxTokens: 1}, ignorePiece)
		ended <- err
	}()
	<-compiling
	require.NoError(t, e.Close())
	err = <-ended
	require.ErrorIs(t, err, backend.ErrClosed)
	require.True(t, strings.Contains(err.Error(), "could not grow"), err)
	require.Zero(t, dev.programs.Load())
	require.Zero(t, dev.buffers.Load())
}
