package graphswap

import "fmt"

// Problem is what a plan is made for: the costs of one prompt on one partition.
// Chunks and blocks count from 0, times are milliseconds.
type Problem struct {
	Rows1, Rows2 int
	Chunks       []int // tokens per chunk

	P [][]float64 // (chunk, block): on G1, one execute
	D [][]float64 // (chunk, block): on G2, all its executes
	// Verify is per block what a decode pass takes, on G1 and on G2.
	Verify [2][]float64

	Load  [2][]float64 // per block: creation of G1, of G2, release of the other included
	Bytes [2][]int64   // per block: what G1, G2 hold; nothing for one that shares the other's weights

	Slow float64 // multiplies executes that start while a load runs; 0 means 1

	// Before is resident at the start. Nil means what a plan begins with when
	// nobody else had the device before: G1 everywhere, for g2_only G2.
	Before []Graph

	// HostBytes is what lies outside a session and counts for the peak alone,
	// SessionBytes what a session holds besides blocks: head, cache, buffers.
	HostBytes, SessionBytes int64
	// WindowBytes bounds a session; 0 means no bound.
	WindowBytes int64
}

// Blocks is the number of blocks.
func (p *Problem) Blocks() int { return len(p.Load[0]) }

func (p *Problem) before(block int) Graph {
	if p.Before == nil {
		return G1
	}
	return p.Before[block]
}

// all says that every block begins with just these graphs.
func (p *Problem) all(g Graph) bool {
	for b := range p.Blocks() {
		if p.before(b) != g {
			return false
		}
	}
	return true
}

func (p *Problem) slow() float64 { return max(p.Slow, 1) }

// runs is the number of executes of a step.
func runs(rows2, tokens int, g Graph) int {
	if g == G2 {
		return (tokens + rows2 - 1) / rows2
	}
	return 1
}

// run is one execute of a step.
func (p *Problem) run(s Step, g Graph) float64 {
	if g == G2 {
		return p.D[s.Chunk][s.Block] / float64(runs(p.Rows2, p.Chunks[s.Chunk], G2))
	}
	return p.P[s.Chunk][s.Block]
}

// load is the time of a load.
func (p *Problem) load(l Load) float64 { return p.Load[l.Graph-1][l.Block] }

// bytes is what a block holds with a set of graphs.
func (p *Problem) bytes(block int, g Graph) (n int64) {
	for i := range p.Bytes {
		if g&(1<<i) != 0 {
			n += p.Bytes[i][block]
		}
	}
	return n
}

// Plain is the prefill on G1 alone, without any load: what switching is measured
// against.
func (p *Problem) Plain() (ms float64) {
	for _, row := range p.P {
		for _, v := range row {
			ms += v
		}
	}
	return ms
}

// Request is a prompt and how it is to be cut.
type Request struct {
	Blocks       int
	Rows1, Rows2 int
	Prompt       int // new tokens
	Cached       int // tokens in the cache before them
	// AllLogits wants logits for every row of the prompt, not only the last.
	AllLogits bool
	// Heads are the widths of the head's graphs, ascending. A chunk's rows with
	// logits take the narrowest one that holds them, or the widest again and again.
	// None means a head as wide as a short graph with AllLogits, else one of a
	// single row, and decode passes that each find a head of their rows.
	Heads []int
	// Shared says that the graphs of a block share their weights.
	Shared bool
	Before []Graph // resident; see [Problem].Before
	// Context is the number of tokens that the cache has room for. Zero means
	// what the prompt needs.
	Context int
}

// maxTokens bounds a prompt: more than any context.
const maxTokens = 1 << 20

func (r *Request) check(layers int) error {
	switch {
	case r.Blocks < 1 || r.Blocks > layers:
		return fmt.Errorf("graphswap: %w: %d blocks of %d layers", ErrRequest, r.Blocks, layers)
	case r.Rows2 < 1 || r.Rows1 < r.Rows2 || r.Rows1%r.Rows2 != 0:
		return fmt.Errorf("graphswap: %w: rows %d,%d: the first must be a multiple of the second", ErrRequest, r.Rows1, r.Rows2)
	case r.Rows1 > maxTokens || r.Prompt < 1 || r.Prompt > maxTokens || r.Cached < 0 || r.Cached > maxTokens:
		return fmt.Errorf("graphswap: %w: a prompt of %d tokens after %d", ErrRequest, r.Prompt, r.Cached)
	case r.Before != nil && len(r.Before) != r.Blocks:
		return fmt.Errorf("graphswap: %w: residency of %d blocks for %d", ErrRequest, len(r.Before), r.Blocks)
	}
	for i, rows := range r.Heads {
		if rows < 1 || rows > maxTokens || i > 0 && rows <= r.Heads[i-1] {
			return fmt.Errorf("graphswap: %w: heads of %v rows: ascending widths wanted", ErrRequest, r.Heads)
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
		Rows1: r.Rows1, Rows2: r.Rows2, Before: r.Before, Slow: c.Profile.Load.Slowdown,
		// The base is everything that is not weights; the cache is in it.
		HostBytes:    max(int64(c.Profile.Memory.BaseMB*1e6)-cache, 0) + c.Model.EmbedBytes,
		SessionBytes: c.Model.HeadBytes + cache,
		WindowBytes:  int64(c.Profile.Memory.WindowGB * 1e9),
	}
	head := 1
	if r.AllLogits {
		head = r.Rows2
	}
	for at := 0; at < r.Prompt; at += r.Rows1 {
		tokens := min(r.Rows1, r.Prompt-at)
		last := at+tokens == r.Prompt
		p.Chunks = append(p.Chunks, tokens)
		long, short := make([]float64, r.Blocks), make([]float64, r.Blocks)
		g.add(long, r.Rows1, r.Cached+at)
		for sub := 0; sub < tokens; sub += r.Rows2 {
			g.add(short, r.Rows2, r.Cached+at+sub)
		}
		logits := c.heads(r.heads(head), r.logits(tokens, last)) // of the chunk as a whole, on either graph
		long[r.Blocks-1] += logits
		short[r.Blocks-1] += logits
		p.P, p.D = append(p.P, long), append(p.D, short)
	}
	for i, rows := range []int{r.Rows1, r.Rows2} {
		p.Verify[i] = make([]float64, r.Blocks)
		g.add(p.Verify[i], rows, r.Cached+r.Prompt)
		p.Verify[i][r.Blocks-1] += c.heads(r.heads(rows), rows)
		p.Load[i], p.Bytes[i] = g.loads(rows)
	}
	if r.Shared {
		p.Bytes[1] = make([]int64, r.Blocks)
	}
	return p, nil
}

// logits counts the rows of a chunk that want logits.
func (r Request) logits(tokens int, last bool) int {
	switch {
	case r.AllLogits:
		return tokens
	case last:
		return 1
	}
	return 0
}

// heads are the widths of the head's graphs; where none are told, of a single one.
func (r Request) heads(single int) []int {
	if len(r.Heads) > 0 {
		return r.Heads
	}
	return []int{single}
}
