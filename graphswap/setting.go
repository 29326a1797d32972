package graphswap

import (
	"cmp"
	"math"
	"slices"
)

// Setting describes the graphs that are prepared for a model, and what a session
// has to hold.
type Setting struct {
	Blocks                  []int // partitions to choose from
	PrefillRows, DecodeRows []int // widths to choose from
	Context                 int   // tokens that the cache has room for
	// Shared is set if the graphs were compiled together, on a device that stores their equal
	// weights once.
	Shared bool
	// Accept is the accept length that drafts approach with many rows; 1 without
	// drafts.
	Accept float64
	// Saturation is the number of drafted rows at which drafts reach most of
	// Accept. Zero means 8.
	Saturation float64
	// Verify lists further widths of a decode step, besides its graph's width. A wider step takes
	// several passes.
	Verify []int
	// ExpectedOutput is the expected length of an answer in tokens. Zero means
	// 128.
	ExpectedOutput float64
	// AllLogits asks for the logits of every row of a prompt, not only the last.
	AllLogits bool
	// Heads are the widths of the head's graphs, if they are known: see
	// [Request].Heads.
	Heads []int
	// InOrder restricts switching to plans that take every chunk through all
	// blocks before the next chunk, so that rows of other requests can go with it.
	InOrder bool
}

// saturation is the default of [Setting].Saturation.
const saturation = 8

// Tokens returns the expected tokens of a decode step with a number of rows.
func (s *Setting) Tokens(rows int) float64 {
	enough := cmp.Or(s.Saturation, saturation)
	return 1 + max(s.Accept-1, 0)*(1-math.Exp(-float64(rows)/enough))
}

// Expected returns ExpectedOutput or its default.
func (s *Setting) Expected() float64 {
	if s.ExpectedOutput > 0 {
		return s.ExpectedOutput
	}
	return 128
}

// Residency selects how many graphs of a block a session holds.
type Residency string

// The residencies, the best first.
const (
	SharedPair Residency = "shared pair" // both graphs, equal weights stored once
	BothGraphs Residency = "both graphs" // both graphs, weights stored twice
	OneGraph   Residency = "one graph"
)

// Config is a partition, a pair of widths and how much of it is resident.
type Config struct {
	Blocks      int       `json:"blocks"`
	PrefillRows int       `json:"rows_1"`
	DecodeRows  int       `json:"rows_2"`
	Spare       bool      `json:"spare"` // the session has a spare slot
	Residency   Residency `json:"residency"`
}

// rows returns the width of one of the graphs.
func (c Config) rows(v Variant) int {
	if v == Prefill {
		return c.PrefillRows
	}
	return c.DecodeRows
}

// Configs lists the configurations that fit into a session. It lists only those
// with the best residency that any of them reaches: if both graphs fit, switching
// can only cost.
func (c *Cost) Configs(s *Setting) (all []Config) {
	for _, blocks := range s.Blocks {
		for _, prefill := range s.PrefillRows {
			for _, decode := range s.DecodeRows {
				if blocks > c.Model.Layers || decode >= prefill || prefill%decode != 0 {
					continue
				}
				if cfg, ok := c.fit(s, Config{Blocks: blocks, PrefillRows: prefill, DecodeRows: decode}); ok {
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

// fit returns a configuration with the best residency that a session holds.
func (c *Cost) fit(s *Setting, cfg Config) (Config, bool) {
	p, err := c.TurnProblem(s, cfg, nil, 1, 0)
	if err != nil {
		return cfg, false
	}
	one, both, largest := p.SessionBytes, p.SessionBytes, int64(0)
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

// TurnProblem returns the problem of a turn: a prompt of new tokens after cached
// ones.
func (c *Cost) TurnProblem(s *Setting, cfg Config, before []Variant, prompt, cached int) (*Problem, error) {
	return c.Problem(Request{
		Blocks: cfg.Blocks, PrefillRows: cfg.PrefillRows, DecodeRows: cfg.DecodeRows, Prompt: prompt, Cached: cached,
		Context: s.Context, Shared: s.Shared, Before: before, AllLogits: s.AllLogits, Heads: s.Heads,
	})
}

// PerToken returns the time per token of the answer on one of the graphs.
func (c *Cost) PerToken(s *Setting, cfg Config, v Variant, context float64) float64 {
	rows := cfg.rows(v)
	_, ms := c.decodeStep(s, rows, c.Pass(rows, context, cfg.Blocks, rows))
	return ms
}

// decodeStep returns the rows of a decode step, and its time per token, on a graph whose passes
// take passMs. The step has as many rows as the graph. If additional passes pay, it has a larger
// number from the setting.
func (c *Cost) decodeStep(s *Setting, rows int, passMs float64) (verify int, perToken float64) {
	step := func(verify int) float64 {
		tokens, ms := s.Tokens(verify), float64((verify+rows-1)/rows)*passMs
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
