package launch

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Options selects the model to open, and its settings. Path, Config and Logger are required.
type Options struct {
	// Path is the model's GGUF file.
	Path string
	// Config is the model's config with variables and flags applied.
	Config config.Config
	// Context is the number of tokens of a conversation; zero means the default.
	Context int
	// Sequences is the number of conversations at a time.
	Sequences int
	// Prompt, if set, encodes a prompt, and [Open] stores the tokens in [Model].Prompt. A prompt
	// that does not fit is rejected before anything is compiled.
	Prompt func(*tokenizer.Tokenizer) ([]int32, error)
	Logger *slog.Logger
	// Progress, if set, is called as images are compiled and loaded.
	Progress func(engine.Progress)
	// IdleSwitch is the idle time after which prefill graphs are loaded again, see [engine.Options].
	IdleSwitch time.Duration
	// Forecast predicts a prompt's time even if no plan needs it.
	Forecast bool
	// Policy, if set, wraps the engine's own.
	Policy func(own engine.Policy) engine.Policy
}

// rows returns the graph widths that the user asked for, or nil: the engine then
// chooses them by the number of sequences.
func (o Options) rows() []int {
	if o.Config.Origin["sdnpu.rows"] == "" {
		return nil
	}
	return o.Config.Rows
}

// DraftProblem explains why the drafts that the config requests are impossible, with a remedy. It
// returns "" if they can. Each drafted token needs a row of its own.
func (o Options) DraftProblem() string {
	rows := o.rows()
	switch {
	case o.Config.Draft == (draft.Mode{}) || len(rows) == 0: // the engine's own widths have spare rows
		return ""
	case o.Config.Draft.Auto && o.Config.Origin["sdnpu.draft"] == "": // the user did not ask for drafts
		return ""
	}
	switched, exactly := enginePlan(o.Config.Plan), ""
	if switched == engine.PlanAuto && !engine.Exchangeable(rows) { // then every graph stays loaded
		switched = ""
	}
	if o.Config.Exact {
		exactly = " and an exact width"
	}
	if rows[0] == 1 || switched+exactly != "" && rows[len(rows)-1] == 1 {
		return fmt.Sprintf("drafts (%s) cannot be verified: after the prompt, widths %s with plan %s%s leave only graphs of one row; "+
			"take rows=128,32, or draft=off", o.Config.Draft, config.List(rows), cmp.Or(switched, graphswap.PlanResident), exactly)
	}
	return ""
}

// CheckPlanRows rejects a plan that is impossible with the widths. Its error names the sources of
// both settings.
func (o Options) CheckPlanRows() error {
	rows := o.rows()
	if len(rows) == 0 { // the engine's own widths fit every plan
		return nil
	}
	if err := engine.CheckPlanRows(enginePlan(o.Config.Plan), rows); err != nil {
		return fmt.Errorf("sdnpu.rows = %s in %s and sdnpu.plan = %s in %s: %w; take rows=128,32, or leave one of them out",
			config.List(rows), o.Config.Origin["sdnpu.rows"], o.Config.Plan, o.Config.Origin["sdnpu.plan"], err)
	}
	return nil
}

// enginePlan returns the engine's name of a config's plan. Keeping both graphs
// loaded is the engine's default, which shares their weights if the device can.
func enginePlan(plan string) string {
	if plan == graphswap.PlanResident {
		return ""
	}
	return plan
}

// encode returns the prompt's tokens, or nil if there is no prompt. It rejects a
// prompt that the model's context cannot hold.
func (o Options) encode(t *tokenizer.Tokenizer, c model.Config) ([]int32, error) {
	if o.Prompt == nil {
		return nil, nil
	}
	ids, err := o.Prompt(t)
	if err != nil {
		return nil, err
	}
	if err := checkPrompt(ids, c.Vocab); err != nil {
		return nil, err
	}
	if context := (engine.Options{Context: o.Context}).ContextOf(c); len(ids) > context {
		return nil, fmt.Errorf("%w: %s", &engine.PromptTooLongError{Tokens: len(ids), Context: context}, ContextRemedy(context, c.ContextLength))
	}
	return ids, nil
}

// checkPrompt rejects an empty prompt and tokens outside the vocabulary.
func checkPrompt(ids []int32, vocab int) error {
	if len(ids) == 0 {
		return fmt.Errorf("%w: the prompt is empty: want at least one token", engine.ErrRequest)
	}
	for i, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("%w: token %d of the prompt is %d: want 0..%d, the model's vocabulary", engine.ErrRequest, i, id, vocab-1)
		}
	}
	return nil
}

// ContextRemedy returns advice for a text that is longer than a context. longest is the longest
// context that the model was made for.
func ContextRemedy(context, longest int) string {
	if context < longest {
		return fmt.Sprintf("--context takes up to %d, what the model was made for", longest)
	}
	return "the model was made for no more, so give a shorter prompt, ask for fewer tokens, or take a model with a longer context"
}
