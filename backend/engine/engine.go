package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/backend/engine/power"
	"github.com/sdnpu/sdnpu/backend/engine/residency"
	"github.com/sdnpu/sdnpu/backend/engine/sequences"
	"github.com/sdnpu/sdnpu/backend/engine/workload"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/spec"
)

// Engine holds a loaded model and its sequences. Create one with [New].
type Engine struct {
	// These fields do not change after New.
	dev       backend.Device
	laneName  backend.Lane
	model     *model.Model
	config    model.Config
	tokenizer *tokenizer.Tokenizer
	options   resolved
	policy    Policy
	clock     Clock
	chunkOf   []int // rows of the next pass, by the tokens that a prompt has left

	// These have locks of their own.
	sequences  *sequences.Pool
	queue      *requestQueue
	power      *power.Voter
	idleSwitch idleSwitch
	switcher   *residency.Switcher // nil if all graphs stay loaded
	costs      *residency.Costs
	closing    closing
	experience draft.Experience // what drafts of earlier requests taught

	// graphs are the blocks' graphs. They are replaced with growing and deviceLock
	// held. A goroutine that holds neither reads sizes only.
	graphs  atomic.Pointer[graphSet]
	growing chan struct{} // has an element while it is held

	// deviceLock has an element while it is held. It guards all programs and
	// buffers, and these fields.
	deviceLock chan struct{}
	closed     bool
	broken     error // the error after which no graphs are loaded, or nil
	mustReload bool  // programs must be loaded again
	head       *head
	last       *batch // the last pass, for commits; nil if it failed
	logits     []float32
	tops       tops
	passTimes  *workload.PassTimes
	trust      spec.Trust

	// headLock guards the head's memory while requests settle rows of a pass.
	headLock sync.Mutex

	workload workload.Statistics // has its own lock
}

// moreTokens bounds the number of tokens that have no embedding: Gemma 3's files have one such
// token, for images. A prompt that holds such a token is rejected.
const moreTokens = 64

// checkVocabulary rejects a tokenizer that belongs to another model.
func checkVocabulary(tokens, embeddings int) error {
	if tokens > embeddings+moreTokens {
		return fmt.Errorf("engine: %w: the tokenizer has %d tokens, the model embeddings of %d", ErrOptions, tokens, embeddings)
	}
	return nil
}

// New compiles or loads all graphs of m on dev and allocates the cache. The
// caller keeps dev, m and tok open until the Engine is closed.
func New(ctx context.Context, dev backend.Device, m *model.Model, tok *tokenizer.Tokenizer, options Options) (_ *Engine, err error) {
	device := dev.Capabilities()
	o, err := options.resolve(m.Config(), &device)
	if err = cmp.Or(err, o.deviceErr); err != nil {
		return nil, err
	}
	if err := checkVocabulary(tok.VocabSize(), m.Config().Vocab); err != nil {
		return nil, err
	}
	e := &Engine{
		dev:        dev,
		laneName:   device.Lane,
		model:      m,
		config:     m.Config(),
		tokenizer:  tok,
		options:    o,
		sequences:  sequences.NewPool(o.Sequences),
		chunkOf:    planChunks(&o),
		queue:      newRequestQueue(),
		power:      power.NewVoter(dev, o.Logger),
		passTimes:  workload.NewPassTimes(o.Rows),
		deviceLock: make(chan struct{}, 1),
		growing:    make(chan struct{}, 1),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	switch layers := o.blockLayers(e.config.Layers); {
	case o.Plan != "":
		e.switcher, e.costs = residency.NewSwitcher(), residency.NewCosts(o.Costs, o.Rows, layers)
	case o.Forecast:
		e.costs = residency.NewCosts(nil, o.Rows, layers)
	}
	if e.policy = (ownPolicy{e}); o.Policy != nil {
		e.policy = o.Policy(e.policy)
	}
	f, err := e.newGraphSet(o.contextFor(0))
	if err != nil {
		return nil, err
	}
	e.graphs.Store(f)
	e.head = &head{rows: o.headRows}
	if e.head.memory, err = newHeadMemory(dev, e.config, &o); err != nil {
		return nil, err
	}
	if err = e.loadBlocksAndHead(ctx, f); err != nil {
		return nil, o.explainNoMemory(device, err)
	}
	e.clock = clockOf(f.Set)
	return e, nil
}

// explainNoMemory adds advice to an out-of-memory error. The advice is a plan that
// never keeps every graph, if auto decided to keep them.
func (r *resolved) explainNoMemory(c backend.Capabilities, err error) error {
	if !errors.Is(err, backend.ErrNoMemory) {
		return err
	}
	remedy := "a shorter context, fewer sequences or a recipe of fewer bits need less"
	plan := PlanAuto
	if c.SharesConstants || r.Plan == graphswap.PlanSeparate && r.knownConfig().Residency == graphswap.BothGraphs {
		plan = graphswap.PlanSwitch
	}
	one := "plan " + plan + " keeps one graph of each block in the device at a time"
	switch {
	case r.start != graphswap.Both:
	case r.Exact:
		remedy = "without an exact width, on widths such as 128,32, " + one + "; " + remedy
	case r.widthsReason != "":
		remedy = "on widths such as 128,32 " + one + "; " + remedy
	default:
		remedy = one + "; " + remedy
	}
	return fmt.Errorf("engine: the model does not fit into the device's memory: %s: %w", remedy, err)
}

// Memory is the memory that an Engine uses, in bytes.
type Memory struct {
	// Programs is the device memory of the loaded images, Cache the memory of keys and values, and
	// IO the memory of the graphs' other inputs and outputs.
	Programs, Cache, IO int64
}

func (m Memory) total() int64 { return m.Programs + m.Cache + m.IO }

// Memory returns the memory in use. A growth of the context changes it.
func (e *Engine) Memory() Memory {
	f := e.graphs.Load()
	return Memory{
		Programs: f.ProgramBytes() + images.TotalBytes(e.head.images),
		Cache:    f.memory.Cache().SizeBytes(),
		IO:       f.memory.IOBytes() + e.head.memory.sizeBytes(),
	}
}

// ContextLength returns the number of tokens that one sequence can hold. The graphs
// grow up to it.
func (e *Engine) ContextLength() int { return e.options.Context }

// lock waits for the device lock and for loaded programs.
func (e *Engine) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil { // select takes any ready case
		return fmt.Errorf("engine: %w", err)
	}
	select {
	case e.deviceLock <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("engine: %w", ctx.Err())
	}
	err := e.ensureLoaded()
	if err != nil {
		e.unlock()
	}
	return err
}

// ensureLoaded loads the programs again if the device has restarted. It returns an
// error if there is nothing to run. The caller holds the device lock.
func (e *Engine) ensureLoaded() error {
	switch {
	case e.closed:
		return fmt.Errorf("engine: %w", backend.ErrClosed)
	case e.broken != nil:
		return fmt.Errorf("engine: %w", e.broken)
	case e.mustReload:
		return e.reloadGraphs(context.Background()) // later requests need them, too
	}
	return nil
}

// prepareFor calls ensureLoaded for a request, unless the request was cancelled.
func (e *Engine) prepareFor(ctx context.Context) error {
	err := e.ensureLoaded()
	if ctx.Err() != nil {
		return fmt.Errorf("engine: %w", ctx.Err())
	}
	return err
}

func (e *Engine) unlock() { <-e.deviceLock }

// Close waits for the pass that runs and frees programs, images and buffers.
// Requests under way end with [backend.ErrClosed]. It may be called twice.
func (e *Engine) Close() error {
	e.closing.begin()
	e.idleSwitch.close()
	e.growing <- struct{}{}
	defer func() { <-e.growing }()
	e.deviceLock <- struct{}{}
	defer e.unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	if e.switcher != nil {
		e.switcher.Stop()
	}
	var err error
	if f := e.graphs.Load(); f != nil {
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
