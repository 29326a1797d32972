package graphswap

import (
	"cmp"
	"math"
	"slices"
)

// Setting is what there is to choose from: the graphs that are prepared for a
// model, and what a session has to hold.
type Setting struct {
	Blocks       []int // partitions
	Rows1, Rows2 []int // long and short graphs
	Context      int   // tokens that the cache has room for
	// Shared says that graphs were prepared together, on a device that lets
	// them share their weights.
	Shared bool
	// Accept is the number of tokens per decode step that drafts approach with
	// many rows; one without drafts.
	Accept float64
	// Saturation is the number of drafted rows after which most of what drafts
	// can give is there. Zero means 8.
	Saturation float64
	// Verify lists rows that a decode step may have besides those of its graph:
	// more of them take several passes.
	Verify []int
	// ExpectedOutput is the usual length of an answer in tokens. Zero means
	// 128.
	ExpectedOutput float64
	// AllLogits wants logits for every row of prompts, not only the last.
	AllLogits bool
	// Heads are the widths of the head's graphs where they are known, see
	// [Request].Heads.
	Heads []int
	// InOrder keeps to plans that take every chunk through all blocks before
	// the next one: rows of other requests can go with it.
	InOrder bool
}

// saturation stands for a [Setting].Saturation that is not given.
const saturation = 8

// Tokens is what a decode step on a graph of so many rows yields.
func (s *Setting) Tokens(rows int) float64 {
	enough := cmp.Or(s.Saturation, saturation)
	return 1 + max(s.Accept-1, 0)*(1-math.Exp(-float64(rows)/enough))
}

func (s *Setting) expected() float64 {
	if s.ExpectedOutput > 0 {
		return s.ExpectedOutput
	}
	return 128
}

// Residency is how many graphs of a block a session holds.
type Residency string

// The residencies, the best first.
const (
	SharedPair Residency = "shared pair" // both, weights once
	BothGraphs Residency = "both graphs" // both, weights twice
	OneGraph   Residency = "one graph"
)

// Config is what stays as it is for a session: a partition, a pair of widths
// and how much of it is resident.
type Config struct {
	Blocks    int       `json:"blocks"`
	Rows1     int       `json:"rows_1"`
	Rows2     int       `json:"rows_2"`
	Spare     bool      `json:"spare"` // one more block's graph fits beside
	Residency Residency `json:"residency"`
}

// Configs lists what fits into a session. Of the residencies only the best that
// any configuration reaches is listed: where both graphs fit, exchanging them
// can only cost.
func (c *Cost) Configs(s *Setting) (all []Config) {
	for _, blocks := range s.Blocks {
		for _, rows1 := range s.Rows1 {
			for _, rows2 := range s.Rows2 {
				if blocks > c.Model.Layers || rows2 >= rows1 || rows1%rows2 != 0 {
					continue
				}
				if cfg, ok := c.fit(s, Config{Blocks: blocks, Rows1: rows1, Rows2: rows2}); ok {
					all = append(all, cfg)
				}
			}
		}
	}
	for _, best := range []Residency{SharedPair, BothGraphs, OneGraph} {
		kept := slices.DeleteFunc(slices.Clone(all), func(c Config) bool { return c.Residency != best })
		if len(kept) > 0 {
			return kept
		}
	}
	return nil
}

// allFit says that graphs of all widths are resident at once, so that each turn
// may use the pair that suits it.
func (c *Cost) allFit(s *Setting, cfg Config) bool {
	widths := len(s.Rows1) + len(s.Rows2)
	p, err := c.TurnProblem(s, cfg, nil, 1, 0)
	return err == nil && (s.Shared || p.SessionBytes+int64(widths)*c.Model.BodyBytes <= p.WindowBytes)
}

// fit finds the best residency that a session holds.
func (c *Cost) fit(s *Setting, cfg Config) (Config, bool) {
	p, err := c.TurnProblem(s, cfg, nil, 1, 0)
	if err != nil {
		return cfg, false
	}
	one, largest := p.SessionBytes, int64(0)
	both := p.SessionBytes
	for b := range p.Blocks() {
		most := max(p.Bytes[0][b], p.Bytes[1][b])
		one, both, largest = one+most, both+p.Bytes[0][b]+p.Bytes[1][b], max(largest, most)
	}
	switch {
	case one > p.WindowBytes:
		return cfg, false
	case s.Shared:
		cfg.Residency = SharedPair
	case both <= p.WindowBytes:
		cfg.Residency, cfg.Spare = BothGraphs, both+largest <= p.WindowBytes
	default:
		cfg.Residency, cfg.Spare = OneGraph, one+largest <= p.WindowBytes
	}
	return cfg, true
}

// TurnProblem is a turn's prompt of new tokens behind so many cached ones.
func (c *Cost) TurnProblem(s *Setting, cfg Config, before []Graph, prompt, cached int) (*Problem, error) {
	return c.Problem(Request{
		Blocks: cfg.Blocks, Rows1: cfg.Rows1, Rows2: cfg.Rows2, Prompt: prompt, Cached: cached,
		Context: s.Context, Shared: s.Shared, Before: before, AllLogits: s.AllLogits, Heads: s.Heads,
	})
}

// rows are those of one of the graphs.
func (c Config) rows(g Graph) int {
	if g == G1 {
		return c.Rows1
	}
	return c.Rows2
}

// PerToken is what a token of output takes on a graph.
func (c *Cost) PerToken(s *Setting, cfg Config, g Graph, context float64) float64 {
	rows := cfg.rows(g)
	_, ms := c.verified(s, rows, c.Pass(rows, context, cfg.Blocks, rows))
	return ms
}

// verified picks the rows of a decode step on a graph of which a pass takes so
// long: its own, or as many of the setting's as pay for the passes that they
// take. The second result is the time per token.
func (c *Cost) verified(s *Setting, rows int, pass float64) (verify int, perToken float64) {
	step := func(verify int) float64 {
		tokens, ms := s.Tokens(verify), float64((verify+rows-1)/rows)*pass
		if tokens > 1 {
			ms += c.Profile.CPU.DraftMs
		}
		return ms / tokens
	}
	verify, perToken = rows, step(rows)
	for _, more := range s.Verify {
		if ms := step(more); more > rows && ms < perToken {
			verify, perToken = more, ms
		}
	}
	return verify, perToken
}
