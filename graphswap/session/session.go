package session

import (
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/graphswap"
)

// Choice is the plan for a turn, and the change of widths during the turn.
type Choice struct {
	graphswap.Choice
	change      widthChange
	afterChange *graphswap.Choice // the turn on the new widths; nil without a change
}

// Session chooses the graphs and the plan for each turn of a conversation. It
// learns from the turns: see [Session.Done].
type Session struct {
	chooser     graphswap.Chooser
	configs     []graphswap.Config // all configurations that fit, in the best residency that any of them reaches
	config      graphswap.Config   // in use
	started     bool               // the first turn has run
	preloaded   bool               // the resident graphs were loaded in idle time
	allResident bool               // the graphs of all widths fit at once: each turn picks its pair
	resident    []graphswap.Variant
	statistics  statistics
	change      widthChange // not finished yet
	candidates  map[turnKey][]graphswap.Choice
}

// turnKey identifies turns that have equal candidates.
type turnKey struct {
	config         graphswap.Config
	prompt, cached int
	resident       string
}

// New returns a session with nothing resident. It fails with
// [graphswap.ErrMemory] if no configuration fits.
func New(cost *graphswap.Cost, setting graphswap.Setting) (*Session, error) {
	s := &Session{
		chooser: graphswap.Chooser{Cost: cost, Setting: setting},
		configs: cost.Configs(&setting), candidates: map[turnKey][]graphswap.Choice{},
	}
	if len(s.configs) == 0 {
		return nil, fmt.Errorf("session: %w: %s on %s with a context of %d", graphswap.ErrMemory, cost.Name, cost.Profile.ID, setting.Context)
	}
	s.allResident = allFit(cost, &setting, s.configs[0])
	prior, err := s.priorPrefillMs()
	if err != nil {
		return nil, err
	}
	s.statistics.priorPrefillMs = prior
	expected := s.expectedTurnMs(nil, setting.Context/2)
	s.adopt(s.configs[slices.Index(expected, slices.Min(expected))])
	return s, nil
}

// allFit reports whether the graphs of all widths fit into the session at once.
func allFit(cost *graphswap.Cost, setting *graphswap.Setting, cfg graphswap.Config) bool {
	widths := len(setting.PrefillRows) + len(setting.DecodeRows)
	p, err := cost.TurnProblem(setting, cfg, nil, 1, 0)
	return err == nil && (setting.Shared || p.SessionBytes+int64(widths)*cost.Model.BodyBytes <= p.WindowBytes)
}

// adopt makes a configuration the one in use, with its steady state resident.
func (s *Session) adopt(cfg graphswap.Config) {
	s.config = cfg
	s.resident = steady(cfg)
}

// steady returns the variants that a configuration has resident between turns.
func steady(cfg graphswap.Config) []graphswap.Variant {
	v := graphswap.Both
	if cfg.Residency == graphswap.OneGraph {
		v = graphswap.Decode
	}
	return slices.Repeat([]graphswap.Variant{v}, cfg.Blocks)
}

// Config returns the configuration in use.
func (s *Session) Config() graphswap.Config { return s.config }

// Resident returns the variants that the session takes for resident, by block. Before the first
// turn they are a guess, and the first plan's Before lists the graphs to load.
func (s *Session) Resident() []graphswap.Variant { return slices.Clone(s.resident) }

// SetResident tells the session which graphs are resident, if anything except a turn changed them.
func (s *Session) SetResident(now []graphswap.Variant) {
	s.resident, s.started = slices.Clone(now), true
}

// Choose returns the plan for a turn of prompt new tokens after cached ones. It
// changes nothing.
func (s *Session) Choose(prompt, cached int) (*Choice, error) {
	if !s.allResident && len(s.configs) > 1 && s.started && s.config.Residency != graphswap.OneGraph {
		return s.chooseWithChange(prompt, cached)
	}
	choice, err := s.choose(prompt, cached)
	if err != nil {
		return nil, err
	}
	return &Choice{Choice: *choice}, nil
}

// choose returns the plan for a turn without a change of widths in the background.
func (s *Session) choose(prompt, cached int) (*graphswap.Choice, error) {
	switch {
	case s.allResident:
		return s.anyPair(prompt, cached)
	case len(s.configs) == 1:
		return s.best(s.config, s.resident, prompt, cached)
	case !s.started:
		return s.firstTurn(prompt, cached)
	case s.preloaded:
		return s.best(s.config, s.resident, prompt, cached)
	}
	return s.cheapestFromHere(prompt, cached)
}

// anyPair returns the best choice among the width pairs of the partition, all of
// which are resident.
func (s *Session) anyPair(prompt, cached int) (*graphswap.Choice, error) {
	var best *graphswap.Choice
	for _, cfg := range s.configs {
		if cfg.Blocks != s.config.Blocks {
			continue
		}
		choice, err := s.best(cfg, s.resident, prompt, cached)
		if err != nil {
			return nil, err
		}
		if best == nil || s.turnMs(choice) < s.turnMs(best)-graphswap.Epsilon {
			best = choice
		}
	}
	return best, nil
}

// turnMs returns the time of a turn with the expected answer.
func (s *Session) turnMs(choice *graphswap.Choice) float64 {
	return s.chooser.TurnMs(choice, s.expectedOutput())
}

// best returns the best plan of a turn in one configuration, for the expected
// answer.
func (s *Session) best(cfg graphswap.Config, resident []graphswap.Variant, prompt, cached int) (*graphswap.Choice, error) {
	all, err := s.plans(cfg, resident, prompt, cached)
	if err != nil {
		return nil, err
	}
	return s.chooser.Pick(all, s.expectedOutput()), nil
}

// plans returns the candidates of a turn, from memory if the turn is known.
func (s *Session) plans(cfg graphswap.Config, resident []graphswap.Variant, prompt, cached int) ([]graphswap.Choice, error) {
	key := turnKey{cfg, prompt, cached, residentKey(resident)}
	if all := s.candidates[key]; all != nil {
		return all, nil
	}
	all, err := s.chooser.Candidates(cfg, resident, prompt, cached)
	if err != nil {
		return nil, err
	}
	s.candidates[key] = all
	return all, nil
}

func residentKey(resident []graphswap.Variant) string {
	key := make([]byte, len(resident))
	for b, v := range resident {
		key[b] = byte(v)
	}
	return string(key)
}

// Done records that a plan ran to its end and that the answer had output tokens.
func (s *Session) Done(choice *Choice, output int) error {
	s.started, s.preloaded = true, false
	s.config, s.resident = choice.Config, slices.Clone(choice.Plan.After)
	if s.allResident || len(s.configs) == 1 {
		s.statistics.add(turn{prompt: choice.Prompt, output: float64(output)})
		return nil
	}
	s.continueChange(choice, float64(output))
	prefill, err := s.prefillMs(choice.Prompt, choice.Cached)
	if err != nil {
		return err
	}
	s.statistics.add(turn{prefill, choice.Prompt, float64(output), float64(choice.Cached+choice.Prompt) + float64(output)/2})
	return nil
}

// Reset forgets all turns and starts in a configuration's steady state.
func (s *Session) Reset(cfg graphswap.Config) {
	s.statistics = statistics{priorPrefillMs: s.statistics.priorPrefillMs}
	s.change, s.started, s.preloaded = widthChange{}, false, false
	s.adopt(cfg)
}
