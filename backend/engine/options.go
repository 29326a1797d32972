package engine

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/graphswap"
)

const (
	// defaultContext is the context of models that were made for longer ones.
	defaultContext = 4096
	// blockParameters is the largest number of weights of a block if the options leave the number
	// of blocks open. An f16 image of a block then has at most 200 MB, which an NPU session must
	// hold in one piece besides other images.
	blockParameters = 100_000_000
	// maxRows bounds the width of a graph, and with it the size of its mask.
	maxRows = 4096
	// defaultTop is enough for each draw with top_k and repeat_last_n of up to 128
	// together, such as Ollama's 40 and 64.
	defaultTop = 128
	// maxSlots bounds Context times Sequences.
	maxSlots = 1 << 20
	// databaseTokens bounds the earlier outputs that are kept in memory: about 60 MB.
	databaseTokens = 1 << 20
)

// Options tunes an Engine. The zero value is ready to use.
type Options struct {
	// Recipe is the precision. Zero means the first of [model.Recipes].
	Recipe model.Recipe
	// Rows are the widths of the graphs, in descending order. If Rows is empty, the widths are 128
	// and 1, and with several sequences also a width with a row for each sequence. Drafts add 32 and
	// 8; automatic ones do so only if the device shares constants. With a plan or an exact width the
	// default is 128 and 32.
	Rows []int
	// Blocks is the number of blocks. Zero means one per 100 million parameters.
	Blocks int
	// Context is the number of tokens that one sequence holds. Zero means the model's,
	// but at most 4096.
	Context int
	// FirstContext is the context tier that the engine starts with. The tier doubles, up
	// to Context, when a sequence needs more. Zero means 512.
	FirstContext int
	// Sequences is the number of conversations that the KV cache holds, and of requests
	// that run at the same time. Zero means one.
	Sequences int
	// Plan selects which graphs are loaded at which time: see [Plans]. Empty means that all graphs
	// are loaded, in shared images if the device shares constants.
	Plan string
	// Costs is the cost model that plans are based on. If it is nil, each graph is
	// measured when it is first loaded.
	Costs *graphswap.Cost
	// IdleSwitch is the time without requests after which the prefill graphs are loaded
	// again, if plans switch graphs and the usual prompt is then answered sooner. Zero
	// means never.
	IdleSwitch time.Duration
	// Forecast measures each graph when it is first loaded, even if no plan needs
	// that, so that reports can compare a prompt's time with its forecast.
	Forecast bool
	// Draft selects the draft sources. Drafts change the time of an answer and never its
	// text.
	Draft draft.Mode
	// Exact computes each token after a prompt on graphs of one width. docs/engine.md describes the
	// guarantees.
	Exact bool
	// Flips is the result of [Engine.MeasureFlips] for this model and device, for
	// reports. Nil means that nothing was measured.
	Flips *Flips
	// Database holds the texts of earlier requests, from which tokens are drafted. The caller keeps
	// it open until the Engine is closed. Nil means a database in memory.
	Database *draft.Database
	// Policy, when set, wraps the policy of the engine: see [Policy].
	Policy func(own Policy) Policy
	// AlwaysCalibrate runs the head for every token of a prompt, if Draft calibrates,
	// even if that is not expected to pay: see [Calibration].
	AlwaysCalibrate bool
	// ProcessTime, when set, returns the processor time of this process so far. Reports then
	// include the processor time of a request.
	ProcessTime func() time.Duration
	// HeadRows is the width of the head's graph. Zero means the smallest of Rows. If
	// there are more sequences, a second graph has a row for each. With Exact it is the
	// exact width.
	HeadRows int
	// Top is the number of best logits that the head's graph returns separately: most
	// draws need no others. Zero means 128, which every library selects fast. A negative
	// number means none: each draw then reads whole rows.
	Top int
	// Cache keeps compiled images. If it is nil, each start compiles them.
	Cache *imagecache.Store
	// Name labels the images in the cache: the model's name, for people.
	Name string
	// Compile, when set, writes the images instead of the device, for instance in
	// another process. It calls filled with the size of each constant that is written.
	Compile func(ctx context.Context, w io.Writer, job Job, filled func(bytes int)) error
	// CompilePatience is the silence that is allowed of a process that compiles, in
	// addition to the time that its work takes. A process that waits longer for the
	// lock of an image compiles it too. Zero means [DefaultPatience].
	CompilePatience time.Duration
	// Logger receives warnings. Nil means silence.
	Logger *slog.Logger
	// Progress, when set, is called while images are compiled and loaded: when one
	// begins, at least every second, and when it is done. Calls do not overlap.
	Progress func(Progress)
}

// ContextOf returns the context of a model, so that the caller can reject a prompt
// that does not fit before anything is compiled.
func (o Options) ContextOf(c model.Config) int {
	if o.Context == 0 {
		return min(c.ContextLength, defaultContext)
	}
	return o.Context
}

// Shape returns the widths of the graphs, descending, the number of blocks, and the
// past slots of all sequences with which [New] begins.
func (o Options) Shape(c model.Config) (rows []int, blocks, slots int, err error) {
	r, err := o.resolve(c, nil)
	if err != nil {
		return nil, 0, 0, err
	}
	return r.Rows, r.Blocks, r.contextFor(0) * r.Sequences, nil
}
