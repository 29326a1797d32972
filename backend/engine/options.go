package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/graphswap"
)

const (
	// defaultContext is the context of models that were made for more.
	defaultContext = 4096
	// blockParameters is how many weights a block has at most when the caller
	// leaves the number of blocks open: in f16 its image, which a session of
	// the NPU must hold in one piece beside others, stays at 200 MB.
	blockParameters = 100_000_000
	// maxRows bounds a graph's width, and with it the mask.
	maxRows = 4096
	// defaultTop serves every draw with top_k and repeat_last_n of up to as much
	// together, Ollama's 40 and 64 too.
	defaultTop = 128
	// maxSlots bounds Context times Sequences.
	maxSlots = 1 << 20
)

// databaseTokens bounds what is remembered of earlier outputs: about 60 MB.
const databaseTokens = 1 << 20

// Options tunes an Engine. The zero value is ready to use.
type Options struct {
	// Recipe is the precision. Zero means the first of [model.Recipes].
	Recipe model.Recipe
	// Rows are the widths of the graphs, in descending order. None means 128
	// and 1, and with several sequences a width for one row of each of them; with
	// drafts 128, 32, 8 and 1; where the width is to be exact, 128 and 32.
	Rows []int
	// Blocks is the number of runs of layers. Zero means one per 100 million
	// parameters.
	Blocks int
	// Context is the number of tokens that one sequence holds. Zero means what
	// the model was made for, 4096 at most.
	Context int
	// FirstContext is the context that the graphs begin with; it doubles, up to
	// Context, when a sequence needs more. Zero means 512; Context or more means
	// that it never grows.
	FirstContext int
	// Sequences is the number of texts held and generated at the same time.
	// Zero means one.
	Sequences int
	// Plan says which graphs are in the device when: see [Plans]. Empty means
	// that all are, with weights stored once where the device can.
	Plan string
	// stays says why [PlanAuto] became the empty plan.
	stays string
	// swaps is set where the device carries out the plan itself.
	swaps bool
	// Costs are what plans go by; nil means what the graphs are measured to take
	// while they are first loaded.
	Costs *graphswap.Cost
	// IdleSwitch is after how long without a request the wide graphs are loaded
	// again, where plans exchange graphs and the usual prompt is served sooner by
	// that. Zero means never.
	IdleSwitch time.Duration
	// Foretell measures graphs while they are loaded where no plan needs that, so
	// that reports can say what a prompt was to take.
	Foretell bool
	// Draft says where speculative drafts come from. They change the time and
	// never the text.
	Draft draft.Mode
	// Exact gives each token behind a prompt one width to be computed on, that of
	// VerifyRows: see the package's comment for what that promises.
	Exact bool
	// Flips is what [Engine.MeasureFlips] found of this model on this device, for
	// reports. Nil means that nobody has measured.
	Flips *Flips
	// Database is what drafts remember of earlier requests; the caller keeps it
	// until the Engine is closed. Nil means one in memory.
	Database *draft.Database
	// Cost, when set, says how long a pass takes, in place of what is measured:
	// drafts are then cut to what pays on the device that it describes.
	Cost func(rows int) time.Duration
	// AlwaysCalibrate runs the head for every token of a prompt, if Draft
	// calibrates, and not only where that is predicted to pay: see [Calibration].
	AlwaysCalibrate bool
	// ThreadTime, when set, is the processor time of the calling thread: what drafts
	// cost is then told in it, too, so that other load does not count.
	ThreadTime func() time.Duration
	// ProcessTime, when set, is the processor time of this process so far: reports
	// then tell what a request took of it.
	ProcessTime func() time.Duration
	// HeadRows is the width of the head's graph. Zero means the smallest of
	// Rows. With more sequences than that a second one has a row for each. Where
	// the width is to be exact it is VerifyRows.
	HeadRows int
	// Top is how many of the best logits the head's graph hands over by
	// themselves: most draws need no more. Zero means 128, which every library
	// picks fast; negative means none, and that each draw reads whole rows.
	Top int
	// Cache keeps compiled images; nil means that every start compiles.
	Cache *imagecache.Store
	// Name is what the cache's images are labelled with: the model's, for people.
	Name string
	// Compile, when set, writes the images in the device's place, in a process
	// of its own say; filled is to be told the bytes of every constant that has
	// been filled in. Nil means the device's own Compile.
	Compile func(ctx context.Context, w io.Writer, job Job, filled func(bytes int)) error
	// Logger receives warnings. Nil means silence.
	Logger *slog.Logger
	// Progress, when set, is called while images are compiled and loaded: when
	// one begins, at least every second, and when it is done. Calls do not
	// overlap.
	Progress func(Progress)
}

// Progress tells how far New has come.
type Progress struct {
	// Done of Total images are ready.
	Done, Total int
	// Graph is the one worked on, or several of one image: block0_rows{1,128}.
	Graph string
	// WeightsDone of Weights bytes of constants are in images.
	WeightsDone, Weights int64
	// Bytes is the size of its image, as far as it is written.
	Bytes int64
	// Elapsed is the time spent on it.
	Elapsed time.Duration
	// Waiting tells that another process compiles the image.
	Waiting bool
	// Cached tells that the image came from the cache and was not compiled.
	Cached bool
}

// ContextOf is the context that a model gets: a prompt that does not fit can be
// refused before anything is compiled.
func (o Options) ContextOf(c model.Config) int {
	if o.Context == 0 {
		return min(c.ContextLength, defaultContext)
	}
	return o.Context
}

// Shape is what the graphs are that [New] begins with: their widths, descending,
// the blocks, and the past slots of all sequences.
func (o Options) Shape(c model.Config) (rows []int, blocks, slots int, err error) {
	if o, err = o.resolve(c); err != nil {
		return nil, 0, 0, err
	}
	return o.Rows, o.Blocks, o.contextFor(0) * o.Sequences, nil
}

// resolve checks the options against the model and fills in what is zero.
func (o Options) resolve(c model.Config) (Options, error) {
	if o.Recipe == (model.Recipe{}) {
		o.Recipe = model.Recipes[0]
	}
	if o.Blocks == 0 {
		o.Blocks = defaultBlocks(c)
	}
	o.Context = o.ContextOf(c)
	if o.FirstContext == 0 {
		o.FirstContext = firstContext
	}
	o.FirstContext = min(o.FirstContext, max(o.Context, 1))
	if o.Sequences == 0 {
		o.Sequences = 1
	}
	if o.Database == nil {
		o.Database = draft.NewDatabase(databaseTokens)
	}
	o.Rows = slices.Clone(o.Rows)
	if len(o.Rows) == 0 {
		o.Rows = []int{128, 1}
		if o.Plan != "" || o.Exact {
			o.Rows = []int{128, 32}
		} else if n := o.Sequences; o.Draft != (draft.Mode{}) {
			o.Rows = []int{128, 32, 8, 1}
		} else if n > 1 && n < 128 {
			o.Rows = []int{128, n, 1}
		}
	}
	o = o.permit(o.rowBytes(c))
	if o.Top == 0 {
		o.Top = defaultTop
	}
	o.Top = min(max(o.Top, 0), c.Vocab)
	if o.HeadRows == 0 {
		o.HeadRows = o.Rows[len(o.Rows)-1]
	}
	if o.Exact {
		o.HeadRows = o.VerifyRows()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o, o.check(c)
}

// rowBytes is one row of hidden states.
func (o Options) rowBytes(c model.Config) int { return c.Hidden * o.Recipe.Activations.Size() }

func (o Options) check(c model.Config) error {
	for i, rows := range o.Rows {
		if rows < 1 || rows > maxRows || i > 0 && rows >= o.Rows[i-1] {
			return fmt.Errorf("engine: %w: widths %v: descending numbers from 1 to %d wanted", ErrOptions, o.Rows, maxRows)
		}
	}
	if err := o.checkPlan(o.rowBytes(c)); err != nil {
		return err
	}
	switch {
	case o.Blocks < 1 || o.Blocks > c.Layers:
		return fmt.Errorf("engine: %w: %d blocks of %d layers: 1 to %d wanted", ErrOptions, o.Blocks, c.Layers, c.Layers)
	case o.Context < 1 || o.Context > c.ContextLength:
		return fmt.Errorf("engine: %w: a context of %d: 1 to %d wanted, what the model was made for", ErrOptions, o.Context, c.ContextLength)
	case o.FirstContext < 1:
		return fmt.Errorf("engine: %w: graphs that begin with a context of %d", ErrOptions, o.FirstContext)
	case o.Sequences < 1 || o.Sequences > maxSlots/o.Context:
		return fmt.Errorf("engine: %w: %d sequences of %d tokens: 1 to %d slots in all wanted", ErrOptions, o.Sequences, o.Context, maxSlots)
	case o.HeadRows < 1 || o.HeadRows > maxRows:
		return fmt.Errorf("engine: %w: a head of %d rows: 1 to %d wanted", ErrOptions, o.HeadRows, maxRows)
	}
	return nil
}

// defaultBlocks divides the layers' parameters by blockParameters.
func defaultBlocks(c model.Config) int {
	attention := 2 * c.HeadDim * (c.Heads + c.KVHeads)
	layer := c.Hidden * (attention + 3*c.FFN)
	blocks := (c.Layers*layer + blockParameters - 1) / blockParameters
	return min(max(blocks, 1), c.Layers)
}

// blockRange returns the layers of a block: as even as can be.
func (o Options) blockRange(block, layers int) (first, end int) {
	return block * layers / o.Blocks, (block + 1) * layers / o.Blocks
}

// maxHeads bounds the head's widths with drafts: the narrowest ones.
const maxHeads = 3

// headRows are the widths of the head's graphs, ascending: passes that several
// generations share have a row of logits for each, and so has every draft.
func (o Options) headRows() []int {
	if o.Exact { // another width may give other logits
		return []int{o.HeadRows}
	}
	if o.Draft != (draft.Mode{}) {
		rows := slices.Clone(o.Rows[max(len(o.Rows)-maxHeads, 0):])
		slices.Reverse(rows)
		return rows
	}
	if o.Sequences > o.HeadRows {
		return []int{o.HeadRows, min(o.Sequences, maxRows)}
	}
	return []int{o.HeadRows}
}
