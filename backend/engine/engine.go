package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// Engine holds a loaded model and its sequences. Create one with [New].
type Engine struct {
	dev       backend.Device
	laneName  backend.Lane
	model     *model.Model
	config    model.Config
	tokenizer *tokenizer.Tokenizer
	options   Options
	programs  []*loaded
	widths    []width // ascending
	head      step
	memory    *memory
	sequences *pool
	chunks    []int // rows of the next pass by what is left of a prompt

	// lane is held by who runs programs or touches what follows.
	lane   chan struct{}
	closed bool
	last   *plan // the last pass, for Commit; nil if it failed
	hidden []byte
	logits []float32
}

// width is the model at one number of rows.
type width struct {
	rows   int
	blocks []step
}

// step is one graph, ready to run.
type step struct {
	*loaded
	bindings []backend.Binding
}

// New compiles or loads all graphs of m on dev and allocates the cache. The
// caller keeps dev, m and tok open until the Engine is closed.
func New(ctx context.Context, dev backend.Device, m *model.Model, tok *tokenizer.Tokenizer, options Options) (_ *Engine, err error) {
	options, err = options.resolve(m.Config())
	if err != nil {
		return nil, err
	}
	if tok.VocabSize() > m.Config().Vocab {
		return nil, fmt.Errorf("engine: %w: the tokenizer has %d tokens, the model %d", ErrOptions, tok.VocabSize(), m.Config().Vocab)
	}
	e := &Engine{
		dev: dev, laneName: dev.Capabilities().Lane, model: m, config: m.Config(), tokenizer: tok, options: options,
		sequences: newPool(options.Sequences), chunks: planChunks(options.Rows), lane: make(chan struct{}, 1),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	// The cache comes before the programs: it is what a device has to place in
	// one piece.
	if e.memory, err = newMemory(dev, e.config, m.Views(options.Context), options); err != nil {
		return nil, err
	}
	e.hidden = hiddenRow(options.slots()+options.Rows[0], options.Recipe.Activations)
	return e, e.loadGraphs(ctx)
}

// loadGraphs makes the programs of every width, the narrowest first.
func (e *Engine) loadGraphs(ctx context.Context) error {
	o := e.options
	l := &loader{dev: e.dev, options: o, cache: o.Cache, total: len(o.Rows)*o.Blocks + 1}
	for _, rows := range slices.Backward(o.Rows) {
		w := width{rows: rows}
		for block := range o.Blocks {
			first, end := o.blockRange(block, e.config.Layers)
			g, err := e.model.Block(model.Block{
				Name:  fmt.Sprintf("block%d_rows%d", block, rows),
				First: first, End: end, Rows: rows, Context: o.slots(), Recipe: o.Recipe,
			})
			if err != nil {
				return fmt.Errorf("engine: %w", err)
			}
			s, err := e.addStep(ctx, l, g, e.memory.blockPorts(block, first, end))
			if err != nil {
				return err
			}
			w.blocks = append(w.blocks, s)
		}
		e.widths = append(e.widths, w)
	}
	g, err := e.model.Head(model.Head{Name: fmt.Sprintf("head_rows%d", o.HeadRows), Rows: o.HeadRows, Recipe: o.Recipe})
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	e.head, err = e.addStep(ctx, l, g, e.memory.headPorts())
	return err
}

func (e *Engine) addStep(ctx context.Context, l *loader, g *backend.Graph, ports map[string]*region) (step, error) {
	p, err := l.load(ctx, g)
	if err != nil {
		return step{}, err
	}
	e.programs = append(e.programs, p)
	bindings, err := bind(g.Name, p.signature, ports)
	return step{loaded: p, bindings: bindings}, err
}

// Memory tells what an Engine occupies, in bytes.
type Memory struct {
	// Programs is the device memory of the loaded images, Cache that of keys
	// and values, IO that of the graphs' other inputs and outputs.
	Programs, Cache, IO int64
}

// Memory returns the sizes; they do not change.
func (e *Engine) Memory() Memory {
	m := Memory{Cache: e.memory.cacheBytes, IO: e.memory.ioBytes}
	for _, p := range e.programs {
		m.Programs += p.program.SizeBytes()
	}
	return m
}

// ContextLength is the number of tokens that one sequence holds.
func (e *Engine) ContextLength() int { return e.options.Context }

// lock waits for the programs.
func (e *Engine) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil { // select takes any ready case
		return fmt.Errorf("engine: %w", err)
	}
	select {
	case e.lane <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("engine: %w", ctx.Err())
	}
	if e.closed {
		e.unlock()
		return fmt.Errorf("engine: %w", backend.ErrClosed)
	}
	return nil
}

func (e *Engine) unlock() { <-e.lane }

// Close waits for the pass that runs and frees programs, images and buffers.
// Generations that go on end with [backend.ErrClosed]. It may be called twice.
func (e *Engine) Close() error {
	e.lane <- struct{}{}
	defer e.unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	var err error
	for _, p := range e.programs {
		err = errors.Join(err, p.close())
	}
	if e.memory != nil {
		err = errors.Join(err, e.memory.close())
	}
	if err != nil {
		return fmt.Errorf("engine: close: %w", err)
	}
	return nil
}
