package graphswap

import "fmt"

// Problem holds the costs of one prompt on one partition: the input of a plan.
// Chunks and blocks count from 0, times are milliseconds. An index [2] selects the
// prefill graph (0) or the decode graph (1).
type Problem struct {
	PrefillRows, DecodeRows int
	Chunks                  []int // tokens per chunk

	PrefillMs [][]float64 // (chunk, block): one execute on the prefill graph
	DecodeMs  [][]float64 // (chunk, block): all executes on the decode graph
	// VerifyMs is the time of each block in a decode pass.
	VerifyMs [2][]float64

	LoadMs [2][]float64 // per block: free the other graph and load this one
	Bytes  [2][]int64   // per block: size of the graph; 0 if it shares the other's weights

	Slowdown float64 // multiplies executes that start while a load runs; 0 means 1

	// Before lists the resident graphs at the start, per block. If it is nil, prefill graphs are,
	// or decode graphs for decode_only.
	Before []Variant

	// HostBytes is memory outside of the session. It counts for the peak only. SessionBytes is the
	// size of everything in the session but blocks: head, cache, buffers.
	HostBytes, SessionBytes int64
	// WindowBytes limits the session's memory; 0 means no limit.
	WindowBytes int64
}

// Blocks returns the number of blocks.
func (p *Problem) Blocks() int { return len(p.LoadMs[0]) }

// variantBefore returns what a block has at the start.
func (p *Problem) variantBefore(block int) Variant {
	if p.Before == nil {
		return Prefill
	}
	return p.Before[block]
}

// startsWith reports whether every block starts with exactly this variant.
func (p *Problem) startsWith(g Variant) bool {
	for b := range p.Blocks() {
		if p.variantBefore(b) != g {
			return false
		}
	}
	return true
}

func (p *Problem) slowdown() float64 { return max(p.Slowdown, 1) }

// executes returns the number of executes of a step.
func executes(decodeRows, tokens int, g Variant) int {
	if g == Decode {
		return (tokens + decodeRows - 1) / decodeRows
	}
	return 1
}

// executeMs returns the time of one execute of a step.
func (p *Problem) executeMs(s Step, g Variant) float64 {
	if g == Decode {
		return p.DecodeMs[s.Chunk][s.Block] / float64(executes(p.DecodeRows, p.Chunks[s.Chunk], Decode))
	}
	return p.PrefillMs[s.Chunk][s.Block]
}

// loadMs returns the time of a load.
func (p *Problem) loadMs(l Load) float64 { return p.LoadMs[l.Variant-1][l.Block] }

// bytes returns the size of a block's resident graphs.
func (p *Problem) bytes(block int, g Variant) (n int64) {
	for i := range p.Bytes {
		if g&(1<<i) != 0 {
			n += p.Bytes[i][block]
		}
	}
	return n
}

// PlainPrefillMs returns the time of the prefill on prefill graphs alone, without
// loads. Exposed time is measured against it.
func (p *Problem) PlainPrefillMs() (ms float64) {
	for _, row := range p.PrefillMs {
		for _, v := range row {
			ms += v
		}
	}
	return ms
}

// Request describes a prompt and its partition.
type Request struct {
	Blocks                  int
	PrefillRows, DecodeRows int
	Prompt                  int // new tokens
	Cached                  int // tokens in the cache before them
	// AllLogits asks for the logits of every row of the prompt, not only the last.
	AllLogits bool
	// Heads are the widths of the head's graphs, ascending. The head runs on the
	// smallest graph that holds a chunk's rows with logits, or several times on the
	// largest. If there are none, the head has the rows of a decode graph with
	// AllLogits and one row without, and decode passes have a head of their width.
	Heads []int
	// Shared is set if the graphs of a block share their weights.
	Shared bool
	Before []Variant // see [Problem].Before
	// Context is the number of tokens that the cache has room for. Zero means the
	// number that the prompt needs.
	Context int
}

// maxTokens limits a prompt; no model has a longer context.
const maxTokens = 1 << 20

// check returns an error for values that no plan can have.
func (r *Request) check(layers int) error {
	switch {
	case r.Blocks < 1 || r.Blocks > layers:
		return fmt.Errorf("graphswap: %w: blocks=%d: want 1..%d, the layers of the model", ErrRequest, r.Blocks, layers)
	case r.DecodeRows < 1 || r.PrefillRows < r.DecodeRows || r.PrefillRows%r.DecodeRows != 0:
		return fmt.Errorf("graphswap: %w: rows=%d,%d: the first must be a multiple of the second", ErrRequest, r.PrefillRows, r.DecodeRows)
	case r.PrefillRows > maxTokens || r.Prompt < 1 || r.Prompt > maxTokens || r.Cached < 0 || r.Cached > maxTokens:
		return fmt.Errorf("graphswap: %w: a prompt of %d tokens after %d: want 1..%d tokens after at most %d", ErrRequest, r.Prompt, r.Cached, maxTokens, maxTokens)
	case r.Before != nil && len(r.Before) != r.Blocks:
		return fmt.Errorf("graphswap: %w: residency of %d blocks for a partition of %d", ErrRequest, len(r.Before), r.Blocks)
	}
	for i, rows := range r.Heads {
		if rows < 1 || rows > maxTokens || i > 0 && rows <= r.Heads[i-1] {
			return fmt.Errorf("graphswap: %w: heads of %v rows: widths must be positive and ascending", ErrRequest, r.Heads)
		}
	}
	return nil
}

// Problem applies the costs to a request.
func (c *Cost) Problem(r Request) (*Problem, error) {
	if err := r.check(c.Model.Layers); err != nil {
		return nil, err
	}
	g := c.partition(r.Blocks)
	cache := int64(max(r.Context, r.Cached+r.Prompt)) * c.Model.KVBytes
	p := &Problem{
		PrefillRows: r.PrefillRows, DecodeRows: r.DecodeRows, Before: r.Before, Slowdown: c.Profile.Load.Slowdown,
		// The base is everything but weights; it includes the cache.
		HostBytes:    max(int64(c.Profile.Memory.BaseMB*1e6)-cache, 0) + c.Model.EmbedBytes,
		SessionBytes: c.Model.HeadBytes + cache,
		WindowBytes:  int64(c.Profile.Memory.WindowGB * 1e9),
	}
	head := 1
	if r.AllLogits {
		head = r.DecodeRows
	}
	for at := 0; at < r.Prompt; at += r.PrefillRows {
		tokens := min(r.PrefillRows, r.Prompt-at)
		last := at+tokens == r.Prompt
		p.Chunks = append(p.Chunks, tokens)
		prefill, decode := make([]float64, r.Blocks), make([]float64, r.Blocks)
		g.add(prefill, r.PrefillRows, r.Cached+at)
		for sub := 0; sub < tokens; sub += r.DecodeRows {
			g.add(decode, r.DecodeRows, r.Cached+at+sub)
		}
		logits := c.headMs(r.headWidths(head), r.logitRows(tokens, last)) // time of the whole chunk, equal on both graphs
		prefill[r.Blocks-1] += logits
		decode[r.Blocks-1] += logits
		p.PrefillMs, p.DecodeMs = append(p.PrefillMs, prefill), append(p.DecodeMs, decode)
	}
	for i, rows := range []int{r.PrefillRows, r.DecodeRows} {
		p.VerifyMs[i] = make([]float64, r.Blocks)
		g.add(p.VerifyMs[i], rows, r.Cached+r.Prompt)
		p.VerifyMs[i][r.Blocks-1] += c.headMs(r.headWidths(rows), rows)
		p.LoadMs[i], p.Bytes[i] = g.loads(rows)
	}
	if r.Shared {
		p.Bytes[1] = make([]int64, r.Blocks)
	}
	return p, nil
}

// logitRows returns how many rows of a chunk need logits.
func (r Request) logitRows(tokens int, last bool) int {
	switch {
	case r.AllLogits:
		return tokens
	case last:
		return 1
	}
	return 0
}

// headWidths returns the widths of the head's graphs, or a single default.
func (r Request) headWidths(single int) []int {
	if len(r.Heads) > 0 {
		return r.Heads
	}
	return []int{single}
}
