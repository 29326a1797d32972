package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/spec"
)

// Engine holds a loaded model and its sequences. Create one with [New].
type Engine struct {
	dev       backend.Device
	laneName  backend.Lane
	model     *model.Model
	config    model.Config
	tokenizer *tokenizer.Tokenizer
	options   Options
	head      *head
	clock     Clock
	lanes     *lanes // nil where every graph stays in the device
	costs     *costs
	planner   func(promptShape) (*foretold, error)
	idle      idle
	decision  string // why the plan is what it is, where nobody named it
	sequences *pool
	line      *line // of generations
	power     *power
	// experience is what drafts of earlier requests taught.
	experience draft.Experience
	chunks     []int // rows of the next pass by what is left of a prompt

	// family is what passes run on: exchanged by who holds lane and growing.
	family  atomic.Pointer[family]
	growing chan struct{} // held by who makes a longer family
	closing closing

	// lane is held by who runs programs or touches what follows.
	lane   chan struct{}
	closed bool
	broken error // why there are no graphs any more
	lost   bool  // the device has restarted: programs must be made again
	last   *plan // the last pass, for Commit; nil if it failed
	logits []float32
	tops   tops
	row    []float32             // one whole row, see wholeRow
	took   map[int]time.Duration // how long a pass of each width lasts
	doubts map[int]int           // passes of a width until that is believed
	trust  spec.Trust

	habitsMu sync.Mutex
	habits   habits
}

// moreTokens is how many tokens a tokenizer may have more than the model has
// embeddings: Gemma 3 has one, for images. A prompt that holds one is refused.
const moreTokens = 64

// checkVocabulary refuses a tokenizer that belongs to another model.
func checkVocabulary(tokens, embeddings int) error {
	if tokens > embeddings+moreTokens {
		return fmt.Errorf("engine: %w: the tokenizer has %d tokens, the model embeddings of %d", ErrOptions, tokens, embeddings)
	}
	return nil
}

// New compiles or loads all graphs of m on dev and allocates the cache. The
// caller keeps dev, m and tok open until the Engine is closed.
func New(ctx context.Context, dev backend.Device, m *model.Model, tok *tokenizer.Tokenizer, options Options) (_ *Engine, err error) {
	options, err = options.resolve(m.Config())
	if err != nil {
		return nil, err
	}
	options, reason := options.decide(dev.Capabilities())
	if err := options.checkSharing(dev.Capabilities()); err != nil {
		return nil, err
	}
	if err := options.checkExact(); err != nil {
		return nil, err
	}
	if err := checkVocabulary(tok.VocabSize(), m.Config().Vocab); err != nil {
		return nil, err
	}
	e := &Engine{
		dev: dev, laneName: dev.Capabilities().Lane, model: m, config: m.Config(), tokenizer: tok, options: options,
		sequences: newPool(options.Sequences), decision: reason, chunks: planChunks(options), line: newLine(), power: newPower(dev, options.Logger), took: make(map[int]time.Duration), doubts: make(map[int]int),
		lane: make(chan struct{}, 1), growing: make(chan struct{}, 1),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if options.Plan != "" {
		e.lanes, e.costs, e.planner = newLanes(), newCosts(options.Costs, options, e.config.Layers), e.makePlan
	} else if options.Foretell {
		e.costs = newCosts(nil, options, e.config.Layers)
	}
	f, err := e.newFamily(options.contextFor(0))
	if err != nil {
		return nil, err
	}
	e.family.Store(f)
	e.head = &head{rows: options.headRows()}
	if e.head.memory, err = newHeadMemory(dev, e.config, options); err != nil {
		return nil, err
	}
	if err = e.loadGraphs(ctx, f); err != nil {
		return nil, options.noRoom(dev.Capabilities(), err)
	}
	e.clock = f.clock()
	return e, nil
}

// noRoom says what would find room, where that is what lacks. Where auto keeps
// every graph it is a plan that never does.
func (o Options) noRoom(c backend.Capabilities, err error) error {
	if !errors.Is(err, backend.ErrNoMemory) {
		return err
	}
	remedy := "a shorter context, fewer sequences or a recipe of fewer bits need less"
	plan := PlanAuto
	if c.SharesConstants || o.Plan == graphswap.PlanBoth && o.held(o.Costs).Residency == graphswap.BothGraphs {
		plan = graphswap.PlanDescent
	}
	one := "plan " + plan + " keeps one graph of each block in the device at a time"
	switch start, _ := o.start(); {
	case start != graphswap.Both:
	case o.Exact:
		remedy = "without an exact width, on widths such as 128,32, " + one + "; " + remedy
	case o.stays != "":
		remedy = "on widths such as 128,32 " + one + "; " + remedy
	default:
		remedy = one + "; " + remedy
	}
	return fmt.Errorf("engine: the model does not fit into the device's memory: %s: %w", remedy, err)
}

// loadGraphs makes the programs of every block and of the head.
func (e *Engine) loadGraphs(ctx context.Context, f *family) error {
	sets, err := writeBlocks(e.model, e.options, f.slots)
	if err != nil {
		return err
	}
	graphs, err := writeHead(e.model, e.options, e.head.rows)
	if err != nil {
		return err
	}
	l := newLoader(e.dev, e.model.Digest(), e.options, f.slots, append(slices.Clone(sets), graphs))
	l.layers = e.config.Layers
	if err := f.load(ctx, l, sets, e.options, e.config.Layers); err != nil {
		return err
	}
	if err := e.head.load(ctx, l, graphs); err != nil || e.costs == nil {
		return err
	}
	return e.costs.learnHead(ctx, e.head)
}

// Memory tells what an Engine occupies, in bytes.
type Memory struct {
	// Programs is the device memory of the loaded images, Cache that of keys
	// and values, IO that of the graphs' other inputs and outputs.
	Programs, Cache, IO int64
}

func (m Memory) total() int64 { return m.Programs + m.Cache + m.IO }

// Memory returns the sizes, which a growth of the context changes.
func (e *Engine) Memory() Memory {
	f := e.family.Load()
	return Memory{
		Programs: f.programBytes.Load() + programBytes(e.head.images),
		Cache:    f.memory.cacheBytes,
		IO:       f.memory.ioBytes + e.head.memory.sizeBytes(),
	}
}

// ContextLength is the number of tokens that one sequence can hold: the graphs
// grow up to it.
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
	err := e.usable()
	if err != nil {
		e.unlock()
	}
	return err
}

// usable tells who holds the lane whether there is something to run.
func (e *Engine) usable() error {
	switch {
	case e.closed:
		return fmt.Errorf("engine: %w", backend.ErrClosed)
	case e.broken != nil:
		return fmt.Errorf("engine: %w", e.broken)
	case e.lost:
		return e.recreate(context.Background()) // for whoever comes next, too
	}
	return nil
}

func (e *Engine) unlock() { <-e.lane }

// Close waits for the pass that runs and frees programs, images and buffers.
// Generations that go on end with [backend.ErrClosed]. It may be called twice.
func (e *Engine) Close() error {
	e.closing.begin()
	e.idle.close()
	e.growing <- struct{}{}
	defer func() { <-e.growing }()
	e.lane <- struct{}{}
	defer e.unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	if e.lanes != nil {
		e.lanes.stop()
	}
	var err error
	if f := e.family.Load(); f != nil {
		err = f.close()
	}
	if e.head != nil {
		err = errors.Join(err, e.head.close())
	}
	if err != nil {
		return fmt.Errorf("engine: close: %w", err)
	}
	return nil
}
