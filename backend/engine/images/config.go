package images

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Config selects the graphs that a model is compiled into, and the options of compilation. All
// fields are checked: the engine makes a Config of its options.
type Config struct {
	Recipe model.Recipe
	// Rows are the widths of each block's graphs, in descending order. HeadRows are the widths of
	// the head's graphs, in ascending order.
	Rows, HeadRows []int
	// Blocks is the number of blocks.
	Blocks int
	// Top is the number of best logits that the head returns separately; zero means
	// none.
	Top int
	// Separate gives each graph its own image, even if the device shares constants.
	Separate bool
	// Swap lets the device's library switch between the graphs of one image by
	// itself.
	Swap bool
	// Cache keeps images. If it is nil, each start compiles them.
	Cache *imagecache.Store
	// Patience limits the wait for another process that compiles the same image: see
	// [WorkTime]. Zero means [DefaultPatience].
	Patience time.Duration
	// Name labels the images in the cache.
	Name string
	// Compile, when set, writes an image instead of the device. It calls filled with
	// the size of each constant that it has written.
	Compile func(ctx context.Context, w io.Writer, job Job, filled func(bytes int)) error
	// Logger and Progress must be set.
	Logger   *slog.Logger
	Progress func(Progress)
}

// BlockRange returns the layers [first, end) of one of blocks blocks. Blocks differ
// by one layer at most.
func BlockRange(block, blocks, layers int) (first, end int) {
	return block * layers / blocks, (block + 1) * layers / blocks
}
