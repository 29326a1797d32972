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
	images    []*image
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

// loadGraphs makes the programs of every block and of the head.
func (e *Engine) loadGraphs(ctx context.Context) error {
	sets, err := writeGraphs(e.model, e.options)
	if err != nil {
		return err
	}
	l := newLoader(e.dev, e.model.Digest(), e.options, sets)
	o := e.options
	e.widths = make([]width, len(o.Rows))
	for i, rows := range slices.Backward(o.Rows) {
		e.widths[len(o.Rows)-1-i].rows = rows
	}
	for block, graphs := range sets[:o.Blocks] {
		first, end := o.blockRange(block, e.config.Layers)
		steps, err := e.addSteps(ctx, l, graphs, e.memory.blockPorts(block, first, end))
		if err != nil {
			return err
		}
		for i, s := range steps {
			e.widths[i].blocks = append(e.widths[i].blocks, s)
		}
	}
	head, err := e.addSteps(ctx, l, sets[o.Blocks], e.memory.headPorts())
	if err != nil {
		return err
	}
	e.head = head[0]
	return nil
}

// addSteps loads graphs that bind the same memory.
func (e *Engine) addSteps(ctx context.Context, l *loader, graphs []*backend.Graph, ports map[string]*region) ([]step, error) {
	loaded, images, err := l.load(ctx, graphs)
	e.images = append(e.images, images...)
	if err != nil {
		return nil, err
	}
	steps := make([]step, len(loaded))
	for i, p := range loaded {
		bindings, err := bind(p.graph, p.signature, ports)
		if err != nil {
			return nil, err
		}
		steps[i] = step{loaded: p, bindings: bindings}
	}
	return steps, nil
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
	for _, p := range e.images {
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
	for _, p := range e.images {
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
