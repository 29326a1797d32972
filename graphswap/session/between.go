package session

import (
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/graphswap"
)

// Between chooses configurations for an engine that changes them between conversation
// turns only: in a pause, in which nothing waits for the loads. The engine reports each
// turn with [Between.Finished], asks with [Between.Advise] whether another configuration
// is better, and reports a change with [Between.Changed].
//
// A Between shares its statistics and its expectations with [Session], which also
// changes configurations during turns. A Between is not safe for concurrent use.
type Between struct {
	s *Session
}

// Expectation is the expected time of a conversation turn in a configuration.
type Expectation struct {
	Config graphswap.Config
	// TurnMs is the time of a whole turn, and PerTokenMs that of each answered token.
	TurnMs, PerTokenMs float64
}

// Advice recommends a change between conversation turns.
type Advice struct {
	// Now is the expectation of the configuration in use, and Then that of the
	// recommended one.
	Now, Then Expectation
	// LoadMs is the time of the loads that the change needs.
	LoadMs float64
}

// String returns the reason of the advice in one sentence.
func (a *Advice) String() string {
	return fmt.Sprintf("turns like the last ones take %.0f ms with %s instead of %.0f ms with %s", a.Then.TurnMs, Name(a.Then.Config), a.Now.TurnMs, Name(a.Now.Config))
}

// Name describes a configuration in a few words.
func Name(c graphswap.Config) string {
	return fmt.Sprintf("blocks=%d, widths %d and %d, %s", c.Blocks, c.PrefillRows, c.DecodeRows, c.Residency)
}

// NewBetween returns a Between that begins with the configuration that is best for
// typical conversations. NewBetween fails in the same cases as [New].
func NewBetween(cost *graphswap.Cost, setting graphswap.Setting) (*Between, error) {
	s, err := New(cost, setting)
	if err != nil {
		return nil, err
	}
	s.allResident = false // each configuration loads its own widths only
	s.singleRows = true
	expected := s.expectedTurnMs(nil, setting.Context/2)
	s.adopt(s.configs[slices.Index(expected, slices.Min(expected))])
	return &Between{s: s}, nil
}

// Config returns the configuration in use.
func (b *Between) Config() graphswap.Config { return b.s.config }

// Configs returns all configurations between which a Between chooses.
func (b *Between) Configs() []graphswap.Config { return slices.Clone(b.s.configs) }

// Changed records that the graphs of a configuration are loaded now. Changed reports
// whether the configuration is one of Configs; any other configuration changes nothing.
func (b *Between) Changed(c graphswap.Config) bool {
	i := slices.IndexFunc(b.s.configs, func(x graphswap.Config) bool {
		return x.Blocks == c.Blocks && x.PrefillRows == c.PrefillRows && x.DecodeRows == c.DecodeRows
	})
	if i >= 0 {
		b.s.adopt(b.s.configs[i])
	}
	return i >= 0
}

// Accepted records the accept length of a turn whose passes had the given number of
// rows. From the accept length of a turn, Accepted derives the accept length that
// drafts approach with many rows; later turns count more. Passes of one row measure no
// accept length, so Accepted ignores them.
func (b *Between) Accepted(rows int, measured float64) {
	s := &b.s.chooser.Setting
	if s.Accept <= 1 || rows <= 1 {
		return
	}
	reached := (s.Tokens(rows) - 1) / (s.Accept - 1)
	now := 1 + max(measured-1, leastAccept)/reached
	s.Accept += newAccept * (now - s.Accept)
}

// newAccept is the weight of the newest turn in the accept length.
const newAccept = 0.4

// leastAccept keeps the accept length above one: drafts that failed so far may help later.
const leastAccept = 0.01

// Finished records a conversation turn that ended: prompt tokens were computed after cached
// ones, and the answer had output tokens.
func (b *Between) Finished(prompt, cached, output int) error {
	prompt, cached = max(prompt, 1), max(cached, 0)
	prefill, err := b.prefillMs(prompt, cached)
	if err != nil {
		return err
	}
	b.s.statistics.add(turn{prefill, prompt, float64(output), float64(cached+prompt) + float64(output)/2})
	return nil
}

// prefillMs returns the prefill time of a prompt in each configuration. In a pause, an
// engine that keeps one graph of each block loads the better one of the two for the next
// prompt.
func (b *Between) prefillMs(prompt, cached int) ([]float64, error) {
	all, err := b.s.prefillMs(prompt, cached)
	if err != nil {
		return nil, err
	}
	for i, cfg := range b.s.configs {
		if cfg.Residency != graphswap.OneGraph {
			continue
		}
		choice, err := b.s.best(cfg, slices.Repeat([]graphswap.Variant{graphswap.Prefill}, cfg.Blocks), prompt, cached)
		if err != nil {
			return nil, err
		}
		all[i] = min(all[i], choice.Forecast.SwitchEndMs)
	}
	return all, nil
}

// Expect returns the expected time of the turns to come in each configuration, the best
// first. context is the number of tokens in the cache.
func (b *Between) Expect(context int) []Expectation {
	all, _ := b.expect(context)
	slices.SortStableFunc(all, func(x, y Expectation) int {
		switch {
		case x.TurnMs < y.TurnMs:
			return -1
		case x.TurnMs > y.TurnMs:
			return 1
		}
		return 0
	})
	return all
}

func (b *Between) expect(context int) (all []Expectation, turns []turn) {
	s := b.s
	turns = withoutLongestPrompt(s.statistics.turns)
	for i, ms := range s.expectedTurnMs(turns, context) {
		all = append(all, Expectation{s.configs[i], ms, s.perToken(i, float64(context))})
	}
	return all, turns
}

const (
	// leastGain is the smallest share of a turn's time for which a configuration is changed.
	leastGain = 0.01
	// lostPausing is the share of the loads' time that turns must have lost before a
	// change in a pause. The share lostPausing is small, because no request waits for
	// loads in a pause.
	lostPausing = 0.005
)

// Advise returns the change that saves most time in the turns to come, or nil if the
// configuration in use is the best or a change would not pay. Like a change during
// turns, a change in a pause needs turns that have already lost time with the
// configuration in use.
func (b *Between) Advise(context int) *Advice {
	s := b.s
	if s.statistics.count < minTurns {
		return nil
	}
	all, turns := b.expect(context)
	now, best := slices.Index(s.configs, s.config), 0
	for i := range all {
		if all[i].TurnMs < all[best].TurnMs {
			best = i
		}
	}
	a := &Advice{Now: all[now], Then: all[best], LoadMs: s.changeMs(s.config, s.configs[best])}
	gain := a.Now.TurnMs - a.Then.TurnMs
	if gain < leastGain*a.Now.TurnMs || s.horizon()*gain < lostPausing*a.LoadMs || s.lostMs(turns, best) < lostPausing*a.LoadMs {
		return nil
	}
	return a
}
