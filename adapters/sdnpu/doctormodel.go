package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/filelock"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

// The budget of a first run and of a reload from memory, on the emulator. What
// does not grow with a model — a process per image, the library opened in each,
// the tokenizer — gets a fixed allowance beside it, which the verdict names where
// it was needed.
const (
	compileBudget = 3.0 // seconds per 100 million parameters
	reloadBudget  = 1.0 // seconds per GB of images
	fixedBudget   = 0.5 // seconds
)

// modelFlags are the flags of `sdnpu doctor MODEL`.
type modelFlags struct {
	recipe, rows        string
	context, blocks     int
	flips               int
	json, fresh, anyway bool
}

// checkup examines one model. Sizes are bytes, times seconds.
type checkup struct {
	flags    modelFlags
	settings settings
	config   config.Config
	path     string
	logger   *slog.Logger
	result   modelReport
}

// modelReport is what --json prints.
type modelReport struct {
	File         string         `json:"file"`
	FileBytes    int64          `json:"file_bytes"`
	Name         string         `json:"name"`
	Architecture string         `json:"architecture"`
	Parameters   int64          `json:"parameters"`
	Types        map[string]int `json:"types"` // tensors of each type
	Tokens       int            `json:"tokens"`
	MadeFor      int            `json:"made_for_context"`
	Device       string         `json:"device"`
	Recipe       string         `json:"recipe"`
	Rows         []int          `json:"rows"`
	Context      int            `json:"context"`
	// Contexts are those that graphs begin with and grow to. All figures are of
	// the first; each further one takes about as much time and disk again.
	Contexts []int `json:"contexts"`
	Blocks   int   `json:"blocks"`
	Images   int   `json:"images"`
	Cached   int   `json:"images_cached_before"`
	Estimate struct {
		Disk   int64 `json:"disk_bytes"`   // of images that are not in the cache
		Memory int64 `json:"memory_bytes"` // while compiling
	} `json:"estimate"`
	FreeDisk   int64 `json:"free_disk_bytes"`
	FreeMemory int64 `json:"free_memory_bytes"`
	// Compile is the first load whole, nil when every image was cached before.
	Compile *modelTimes `json:"compile"`
	Reload  *modelTimes `json:"reload"`
	Disk    int64       `json:"disk_bytes"`
	Memory  struct {
		KV   int64 `json:"kv_cache_bytes"`
		IO   int64 `json:"io_bytes"`
		Peak int64 `json:"peak_resident_bytes"`
		// Own is the part of the peak that is no file's: images and the model
		// are mapped, and the system drops those pages when it needs them.
		Own int64 `json:"peak_own_bytes"`
	} `json:"memory"`
	FirstTokenMS float64 `json:"first_token_ms"`
	// Lossless is what the width of passes changes, nil where it was not measured
	// and Unmeasured says why.
	Lossless   *modelLossless `json:"lossless"`
	Unmeasured string         `json:"lossless_unmeasured,omitempty"`
	Met        bool           `json:"budget_met"`
	// Strict tells that it was met without the fixed allowance.
	Strict bool `json:"budget_met_without_allowance"`
}

// modelTimes is a load: Rate is seconds per 100 million parameters of a first
// one, per GB of images of a reload; Processor is the time of all cores.
type modelTimes struct {
	Seconds   float64 `json:"seconds"`
	Processor float64 `json:"processor_seconds"`
	Rate      float64 `json:"rate"`
	Budget    float64 `json:"budget_seconds"`
}

// errNoRoom is returned when disk or memory do not suffice.
var errNoRoom = errors.New("not enough room")

// run examines a model and prints what it found as it goes.
func (c *checkup) run(ctx context.Context, stdout, stderr io.Writer) error {
	say := func(what, format string, a ...any) {
		if !c.flags.json {
			fmt.Fprintf(stdout, "%-14s %s\n", what, fmt.Sprintf(format, a...))
		}
	}
	if err := c.readModel(say); err != nil {
		return err
	}
	if c.flags.fresh {
		remove, err := c.freshCache()
		if err != nil {
			return err
		}
		defer remove()
	}
	if err := c.preview(ctx, say); err != nil {
		return err
	}
	if err := c.measure(ctx, stderr, say); err != nil {
		return err
	}
	return c.sum(stdout, say)
}

type sayFunc func(what, format string, a ...any)

// readModel says what the file holds, or why it cannot run and what to do.
func (c *checkup) readModel(say sayFunc) error {
	f, err := openGGUF(c.path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := &c.result
	r.File, r.FileBytes, r.Architecture, r.Types = c.path, f.Size(), f.Architecture(), map[string]int{}
	r.Name = modelName(f)
	for t := range f.Tensors() {
		r.Types[t.Type.String()]++
		r.Parameters += int64(t.Elements())
	}
	say("model", "%s: %s, %s", r.Name, r.Architecture, bytesText(r.FileBytes))
	say("weights", "%.1f million parameters; tensors: %s", float64(r.Parameters)/1e6, tally(r.Types))
	m, err := model.Load(f)
	if err != nil {
		return withModelRemedy(err)
	}
	t, err := tokenizer.New(f)
	if err != nil {
		return withModelRemedy(err)
	}
	mc := m.Config()
	r.MadeFor, r.Tokens = mc.ContextLength, t.VocabSize()
	say("shape", "%d layers, %d wide, %d heads on %d, feed-forward %d, context up to %d", mc.Layers, mc.Hidden, mc.Heads, mc.KVHeads, mc.FFN, mc.ContextLength)
	say("tokenizer", "%d tokens", r.Tokens)
	return nil
}

// freshCache makes the checkup compile into a folder of its own beside the
// cache, which remove takes away.
func (c *checkup) freshCache() (remove func(), err error) {
	parent := c.settings.cacheParent()
	removeLeftFolders(parent)
	dir, err := os.MkdirTemp(parent, freshFolders)
	if err != nil {
		return nil, fmt.Errorf("--fresh: %w", err)
	}
	held, err := os.Create(filepath.Join(dir, freshLock))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--fresh: %w", err), os.RemoveAll(dir))
	}
	_ = filelock.Try(held, true) // without locks folders of killed processes stay
	c.settings.cache, c.settings.cacheSize = dir, "unlimited"
	return func() {
		if err := errors.Join(held.Close(), os.RemoveAll(dir)); err != nil {
			c.logger.Warn("cannot remove the folder of --fresh", "error", err)
		}
	}, nil
}

// job is what the checkup loads.
func (c *checkup) job(progress func(engine.Progress)) job {
	return job{path: c.path, config: c.config, context: c.flags.context, sequences: 1, logger: c.logger, progress: progress}
}

// look asks the engine what it would make.
func (c *checkup) look(ctx context.Context) (p engine.Preview, device string, cache *imagecache.Store, err error) {
	f, err := gguf.Open(c.path)
	if err != nil {
		return p, "", nil, err
	}
	defer f.Close()
	m, err := model.Load(f)
	if err != nil {
		return p, "", nil, err
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		return p, "", nil, err
	}
	options, err := c.settings.engineOptions(ctx, c.job(nil), m, tok, modelName(f))
	if err != nil {
		return p, "", nil, err
	}
	dev, err := c.settings.openDevice(ctx, os.Args[0], c.logger)
	if err != nil {
		return p, "", nil, err
	}
	defer dev.Close()
	p, err = engine.Look(dev, m, options)
	return p, describe(dev.Capabilities()), options.Cache, err
}

// preview estimates what the model takes, before anything is compiled, and
// refuses where that cannot be had.
func (c *checkup) preview(ctx context.Context, say sayFunc) error {
	p, device, cache, err := c.look(ctx)
	if err != nil {
		return err
	}
	r := &c.result
	r.Device = device
	r.Recipe, r.Rows, r.Context, r.Contexts, r.Blocks, r.Images = c.config.Recipe, p.Rows, p.Context, p.Contexts, p.Blocks, len(p.Images)
	r.Memory.KV, r.Memory.IO = p.Cache, p.IO
	var largest int64
	for _, i := range p.Images {
		if i.Bytes > 0 {
			r.Cached++
			r.Disk += i.Bytes
			continue
		}
		r.Estimate.Disk += i.Weights
		largest = max(largest, i.Weights)
	}
	// The library holds a constant as it was given and as it packs it, and then
	// the packed ones beside the image that it writes.
	r.Estimate.Memory = 2*largest + p.Cache + p.IO + processMemory
	say("device", "%s", r.Device)
	say("graphs", "recipe %s, rows %s, contexts %s, %d blocks: %d images, %d of them in the cache", r.Recipe, commas(r.Rows), commas(r.Contexts), r.Blocks, r.Images, r.Cached)
	if len(r.Contexts) > 1 {
		say("", "what follows is for a context of %d; growing to each further one takes about as much time and disk again, once", r.Contexts[0])
	}
	say("memory", "keys and values %s, inputs and outputs %s", bytesText(p.Cache), bytesText(p.IO))
	return c.checkRoom(cache, say)
}

// processMemory is what the program takes for itself and for the tokens of a
// large vocabulary.
const processMemory = 192 << 20

func (c *checkup) checkRoom(cache *imagecache.Store, say sayFunc) error {
	r := &c.result
	var problems []error
	if cache == nil { // images stay in memory
		r.Estimate.Memory += r.Estimate.Disk
		r.Estimate.Disk = 0
		say("disk", "nothing: the cache is off or cannot be used, so every start compiles and images stay in memory")
	} else if free, _, err := imagecache.Space(cache.Dir()); err == nil {
		r.FreeDisk = free
		say("disk", "about %s to write, %s free in %s", bytesText(r.Estimate.Disk), bytesText(free), cache.Dir())
		if r.Estimate.Disk > free {
			problems = append(problems, fmt.Errorf("%w: the images take about %s of disk, %s has %s free: free some, or set SDNPU_CACHE to a folder on another disk",
				errNoRoom, bytesText(r.Estimate.Disk), cache.Dir(), bytesText(free)))
		}
		if limit := cache.Limit(); limit > 0 && r.Estimate.Disk+r.Disk > limit {
			say("warning", "the images take %s, more than the cache keeps (%s): models will push each other out; raise SDNPU_CACHE_SIZE", bytesText(r.Estimate.Disk+r.Disk), bytesText(limit))
		}
	}
	if free, known := freeMemory(); known {
		r.FreeMemory = free
		say("", "about %s of memory while compiling, %s free", bytesText(r.Estimate.Memory), bytesText(free))
		if r.Estimate.Memory > free {
			problems = append(problems, fmt.Errorf("%w: compiling takes about %s of memory, %s are free: close programs, or take a smaller context or more blocks",
				errNoRoom, bytesText(r.Estimate.Memory), bytesText(free)))
		}
	}
	err := errors.Join(problems...)
	if err != nil && c.flags.anyway {
		say("warning", "%v", err)
		return nil
	}
	return err
}

// measure loads the model twice and generates a token.
func (c *checkup) measure(ctx context.Context, stderr io.Writer, say sayFunc) error {
	r := &c.result
	own := watchOwnMemory()
	defer own.stop()
	first := newStopwatch()
	if r.Cached < r.Images {
		if err := c.load(ctx, stderr, func(*loaded) error { return nil }); err != nil {
			return err
		}
		t := first.times()
		t.Budget = fixedBudget + compileBudget*float64(r.Parameters)/1e8
		t.Rate = t.Seconds / (float64(r.Parameters) / 1e8)
		r.Compile = &t
		say("compile", "%.1f s (%.1f s of processor time), %.2f s per 100 million parameters", t.Seconds, t.Processor, t.Rate)
	} else {
		say("compile", "nothing to do: all images are in the cache (--fresh measures it)")
	}
	if err := c.weigh(ctx); err != nil {
		return err
	}
	again := newStopwatch()
	return c.load(ctx, stderr, func(l *loaded) error {
		t := again.times()
		if r.Disk == 0 { // no cache
			r.Disk = l.engine.Memory().Programs
		}
		t.Budget = fixedBudget + reloadBudget*float64(r.Disk)/1e9
		t.Rate = t.Seconds / (float64(r.Disk) / 1e9)
		r.Reload = &t
		say("reload", "%.2f s (%.2f s of processor time), %.2f s per GB of images", t.Seconds, t.Processor, t.Rate)
		say("images", "%s", bytesText(r.Disk))
		ids, err := l.tokenizer.Encode("One", tokenizer.EncodeOptions{AddSpecial: true})
		if err != nil {
			return err
		}
		report, err := l.engine.Generate(ctx, engine.Request{Prompt: ids, MaxTokens: 1, IgnoreEOS: true}, func(engine.Piece) error { return nil })
		if err != nil {
			return err
		}
		r.FirstTokenMS = float64(report.FirstToken.Microseconds()) / 1000
		r.Memory.Peak, r.Memory.Own = peakMemory(), own.stop()
		say("first token", "%.0f ms; operators: NPU %d, CPU %d", r.FirstTokenMS, report.Ops[backend.NPU], report.Ops[backend.CPU])
		return c.measureFlips(ctx, l, report.FirstToken, say)
	})
}

// weigh sums the files of the model's images.
func (c *checkup) weigh(ctx context.Context) error {
	p, _, _, err := c.look(ctx)
	c.result.Disk = 0
	for _, i := range p.Images {
		c.result.Disk += i.Bytes
	}
	return err
}

// load loads the model with a bar, uses it and closes it.
func (c *checkup) load(ctx context.Context, stderr io.Writer, use func(*loaded) error) (err error) {
	bar := newBar(stderr)
	l, err := c.settings.load(ctx, os.Args[0], c.job(bar.step))
	bar.close()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return use(l)
}

// sum says whether the budget was met, or prints the object.
func (c *checkup) sum(stdout io.Writer, say sayFunc) error {
	r := &c.result
	within := func(allowance float64) bool {
		return r.Reload.Seconds <= r.Reload.Budget-fixedBudget+allowance &&
			(r.Compile == nil || r.Compile.Seconds <= r.Compile.Budget-fixedBudget+allowance)
	}
	r.Met, r.Strict = within(fixedBudget), within(0)
	say("peak memory", "%s resident, of which %s are not pages of mapped files", bytesText(r.Memory.Peak), bytesText(r.Memory.Own))
	verdict := fmt.Sprintf("met with the allowance of %v s for what does not grow with a model (processes, the library, the tokenizer)", fixedBudget)
	switch {
	case r.Strict:
		verdict = fmt.Sprintf("met without the allowance of %v s", fixedBudget)
	case !r.Met:
		verdict = "not met"
	}
	compile := "not measured"
	if r.Compile != nil {
		compile = fmt.Sprintf("compile %.1f of %.1f s", r.Compile.Seconds, r.Compile.Budget)
	}
	say("budget", "%s: %s, reload %.2f of %.2f s (the budget is the emulator's: %v s + %v s per 100 million parameters, %v s + %v s per GB)",
		verdict, compile, r.Reload.Seconds, r.Reload.Budget, fixedBudget, compileBudget, fixedBudget, reloadBudget)
	if c.flags.json {
		return json.NewEncoder(stdout).Encode(r)
	}
	return nil
}

// stopwatch measures a time of the clock and of the processor.
type stopwatch struct {
	began     time.Time
	processor time.Duration
}

func newStopwatch() stopwatch { return stopwatch{time.Now(), processorTime()} }

func (s stopwatch) times() modelTimes {
	return modelTimes{Seconds: time.Since(s.began).Seconds(), Processor: (processorTime() - s.processor).Seconds()}
}

// tally lists counts by name: "F16 37, F32 11".
func tally(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// commas lists numbers as a user types them: "128,1".
func commas(numbers []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(numbers)), ","), "[]")
}
