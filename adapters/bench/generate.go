package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/spec/replay"
)

// Setting is one way to generate: a draft mode and, where passes have a
// device's cost and not this machine's, the device.
type Setting struct {
	Mode   string `json:"mode"`
	Device string `json:"device,omitempty"`
}

// Generator is an engine.
type Generator interface {
	Generate(ctx context.Context, r engine.Request, emit func(engine.Piece) error) (engine.Report, error)
	Close() error
}

// GenerateOptions says what to generate.
type GenerateOptions struct {
	Items    []Item
	Settings []Setting
	// Tokens ends each output.
	Tokens int
	// Open returns an engine for a setting; it is closed before the next one.
	Open func(ctx context.Context, s Setting) (Generator, error)
	// Progress is told after each item.
	Progress func(done, total int, s Setting, task string)
}

// Measured is one request.
type Measured struct {
	Setting
	Task string `json:"task"`
	ID   string `json:"id"`
	// Prompt and Output make a request a line that bench replay reads.
	Prompt []int32 `json:"prompt_ids"`
	Output []int32 `json:"output_ids"`
	// Steps are the passes behind the prompt's, each with the rows of its graph,
	// the drafts among them, and how many of these were right.
	Steps []Step `json:"steps"`
	// Times of the whole request in milliseconds. Calibration is what drafts took
	// while the prompt was computed, beside it for the most part: what it held up
	// is no part of Prefill.
	Prefill     float64 `json:"prefill_ms"`
	Calibration float64 `json:"calibration_ms"`
	Draft       float64 `json:"draft_ms"`
	Verify      float64 `json:"verify_ms"`
	Commit      float64 `json:"commit_ms"`
}

// Step is one verification: width, drafted, accepted.
type Step [3]int

// Rows is the width of the step's graph; Drafted and Accepted count drafts.
func (s Step) Rows() int { return s[0] }

// Drafted counts the rows of drafts.
func (s Step) Drafted() int { return s[1] }

// Accepted counts the drafts that were right.
func (s Step) Accepted() int { return s[2] }

// Generate runs all items in their order, one setting after the other. On an
// error the requests until there are returned with it.
func Generate(ctx context.Context, o GenerateOptions) ([]Measured, error) {
	var list []Measured
	total := len(o.Items) * len(o.Settings)
	for _, s := range o.Settings {
		g, err := o.Open(ctx, s)
		if err != nil {
			return list, err
		}
		for _, item := range o.Items {
			m, err := measure(ctx, g, item, o.Tokens)
			if err != nil {
				return list, errors.Join(fmt.Errorf("%s %s with %s: %w", item.Task, item.ID, s.Mode, err), g.Close())
			}
			m.Setting = s
			list = append(list, m)
			if o.Progress != nil {
				o.Progress(len(list), total, s, item.Task)
			}
		}
		if err := g.Close(); err != nil {
			return list, err
		}
	}
	return list, nil
}

func measure(ctx context.Context, g Generator, item Item, tokens int) (Measured, error) {
	r, err := g.Generate(ctx, engine.Request{Prompt: item.IDs, MaxTokens: tokens}, func(engine.Piece) error { return nil })
	if err != nil {
		return Measured{}, err
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	m := Measured{
		Task: item.Task, ID: item.ID, Prompt: item.IDs, Output: r.Output,
		Prefill: ms(r.Prefill - r.PromptDrafting), Calibration: ms(r.PromptDrafting + r.Calibration.Took), Draft: ms(r.Drafting - r.PromptDrafting),
		Steps: make([]Step, 0, len(r.Verifications)),
	}
	for _, v := range r.Verifications {
		m.Steps = append(m.Steps, Step{v.Width, v.Drafted, v.Accepted})
		m.Verify += ms(v.Pass)
		m.Commit += ms(v.Commit)
	}
	return m, nil
}

// beforeLoop are the steps whose tokens all come before a loop.
func (m *Measured) beforeLoop() []Step {
	said, end := 1, replay.LoopAt(m.Output) // the prompt's pass gives the first token
	i := slices.IndexFunc(m.Steps, func(s Step) bool {
		said += s.Accepted() + 1
		return said > end
	})
	if i < 0 {
		return m.Steps
	}
	return m.Steps[:i]
}

// acceptLength is the mean number of tokens of steps, 0 without steps.
func acceptLength(steps []Step) float64 {
	if len(steps) == 0 {
		return 0
	}
	tokens := len(steps)
	for _, s := range steps {
		tokens += s.Accepted()
	}
	return float64(tokens) / float64(len(steps))
}

// Saved is a measurement in a file, to be evaluated otherwise.
type Saved struct {
	Model string `json:"model"`
	// Device ran the model; its times are in the requests.
	Device string `json:"device"`
	// Skipped counts prompts that were too long, by task.
	Skipped  map[string]int `json:"skipped"`
	Requests []Measured     `json:"requests"`
}

// ReadSaved reads what --save wrote. Steps that cannot be are refused.
func ReadSaved(r io.Reader) (*Saved, error) {
	var s Saved
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return nil, err
	}
	if len(s.Requests) == 0 {
		return nil, errors.New("no requests in it")
	}
	for i, m := range s.Requests {
		for _, step := range m.Steps {
			if step.Accepted() < 0 || step.Drafted() < step.Accepted() || step.Rows() <= step.Drafted() {
				return nil, fmt.Errorf("request %d: a pass of %d rows with %d drafts, %d of them right", i+1, step.Rows(), step.Drafted(), step.Accepted())
			}
		}
	}
	return &s, nil
}
