package execute

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft/baseline"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/model/modeltest"
	"github.com/sdnpu/sdnpu/backend/quant"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Job is a plan to execute with a small model of Layers layers.
type Job struct {
	Plan      *graphswap.Plan    `json:"plan"`
	Problem   *graphswap.Problem `json:"problem"`
	Layers    int                `json:"layers"`
	AllLogits bool               `json:"all_logits"`
	// Drafts makes the engine draft, so its head has both widths.
	Drafts bool `json:"drafts,omitempty"`
	// Scale slows the device down: at 2 it takes twice the phone's time.
	Scale float64 `json:"scale"`
}

// Result holds the times of a job, converted to the phone's time.
type Result struct {
	Timeline *graphswap.Timeline `json:"timeline"`
	// OverrunMs is the time that the device's calls took beyond the phone's,
	// because the machine was busy.
	OverrunMs float64 `json:"overrun_ms"`
	Tokens    []int32 `json:"tokens"` // the generated tokens
	Paced     string  `json:"paced"`  // the device profile whose time was kept
}

// answerTokens is the length of an answer, which must not depend on the plan.
const answerTokens = 8

// Run executes a job on a device.
func Run(ctx context.Context, dev backend.Device, job Job) (_ *Result, err error) {
	tokens := 0
	for _, n := range job.Plan.Chunks {
		tokens += n
	}
	path, remove, err := standIn(job.Layers, tokens+answerTokens+1)
	if err != nil {
		return nil, err
	}
	defer remove()
	watched := &watch{Device: dev}
	e, closeAll, err := openStandIn(ctx, watched, path, job, tokens+answerTokens+1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	watched.overrun.Store(0)
	report, err := e.Generate(ctx, engine.Request{
		Prompt: promptOf(tokens), MaxTokens: answerTokens, IgnoreEOS: true,
	}, func(engine.Piece) error { return nil })
	if err != nil {
		return nil, err
	}
	done, err := e.PlanDone(ctx)
	if err != nil {
		return nil, err
	}
	if done == nil {
		return nil, fmt.Errorf("execute: plan %s was not started", job.Plan.Name)
	}
	if done.Failed != "" {
		return nil, fmt.Errorf("execute: plan %s failed: %s", job.Plan.Name, done.Failed)
	}
	x := &Result{Timeline: &done.Timeline, Tokens: report.Output, Paced: watched.paced.Load().(string), OverrunMs: float64(watched.overrun.Load()) / 1e6 / job.Scale}
	unscale(x.Timeline, job.Scale, job.Problem)
	return x, x.Timeline.Check(job.Problem)
}

// unscale converts the times of a slowed device to the phone's.
func unscale(t *graphswap.Timeline, scale float64, p *graphswap.Problem) {
	for i := range t.Tasks {
		task := &t.Tasks[i]
		task.StartMs, task.EndMs, task.WaitMs = task.StartMs/scale, task.EndMs/scale, task.WaitMs/scale
	}
	t.Sum(p)
}

// promptOf returns n random tokens of the small model.
func promptOf(n int) []int32 {
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	ids := []int32{1}
	for len(ids) < n {
		ids = append(ids, 3+rng.Int32N(standInVocab-3))
	}
	return ids
}

// standInVocab is large enough for answers to differ.
const standInVocab = 64

// standIn writes a model whose own compute time is negligible.
func standIn(layers, context int) (path string, remove func(), err error) {
	m := modeltest.New(rand.New(rand.NewPCG(uint64(layers), 3)), "qwen2", quant.F16, true)
	m.Layers, m.Hidden, m.Heads, m.KVHeads, m.Dim, m.FFN, m.Vocab, m.Context = layers, 64, 2, 1, 8, 64, standInVocab, context
	m.Rebuild().AddTokenizer()
	dir, err := os.MkdirTemp("", "sdnpu-stand-in-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	path = filepath.Join(dir, "model.gguf")
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(m.Write(f), f.Close())
	}
	if err != nil {
		remove()
	}
	return path, remove, err
}

// openStandIn opens the small model with the graphs loaded that the plan expects at
// its start.
func openStandIn(ctx context.Context, dev backend.Device, path string, job Job, length int) (_ *engine.Engine, closeAll func() error, err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	m, err := model.Load(f)
	if err != nil {
		return nil, nil, err
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		return nil, nil, err
	}
	recipe, err := model.FindRecipe("f16")
	if err != nil {
		return nil, nil, err
	}
	o := engine.Options{
		Recipe: recipe, Rows: []int{job.Plan.PrefillRows, job.Plan.DecodeRows}, Blocks: job.Plan.Blocks,
		Context: length, FirstContext: length, HeadRows: 1, Plan: job.residency(),
		Costs: &graphswap.Cost{}, // the job brings its plan, so no graph needs to be measured
	}
	o.Policy = func(own engine.Policy) engine.Policy { return policy{own, &job} }
	if job.AllLogits {
		o.HeadRows = job.Plan.DecodeRows
	}
	if job.Drafts {
		o.Draft = baseline.PromptLookup
	}
	e, err := engine.New(ctx, dev, m, tok, o)
	if err != nil {
		return nil, nil, err
	}
	return e, func() error { return errors.Join(e.Close(), f.Close()) }, nil
}

// policy makes the engine execute a job's plan and compute its logits.
type policy struct {
	engine.Policy
	job *Job
}

func (p policy) PlanPrompt(engine.Prompt) (*engine.Forecast, error) {
	return engine.NewForecast(p.job.Plan, p.job.Problem)
}

func (p policy) CalibratePrompt(int, int) engine.CalibrationChoice {
	return engine.CalibrationChoice{Calibrate: p.job.AllLogits}
}

// residency returns the engine's plan that starts with the graphs that the job's
// plan expects.
func (j *Job) residency() string {
	switch {
	case !slices.ContainsFunc(j.Plan.Before, func(g graphswap.Variant) bool { return g != graphswap.Both }):
		return graphswap.PlanSeparate
	case len(j.Plan.Loads) == 0 && j.Plan.Before[0] == graphswap.Decode:
		return graphswap.PlanDecodeOnly
	case len(j.Plan.Loads) == 0:
		return graphswap.PlanPrefillOnly
	}
	return graphswap.PlanSwitch
}

// watch sums up the overruns of a device's calls.
type watch struct {
	backend.Device
	overrun atomic.Int64 // ns
	paced   atomic.Value // string
}

// Load returns a program whose calls are watched.
func (w *watch) Load(ctx context.Context, image backend.Image) (backend.Program, error) {
	p, err := w.Device.Load(ctx, image)
	if err != nil {
		return nil, err
	}
	t, ok := p.(backend.Timed)
	if !ok || t.LoadCost().Paced == "" {
		return nil, errors.Join(errors.New("execute: the device does not keep the time of a profile"), p.Close())
	}
	w.note(t.LoadCost())
	return &watchedProgram{Program: p, Timed: t, watch: w}, nil
}

func (w *watch) note(c backend.Cost) {
	w.overrun.Add(int64(c.Overrun))
	w.paced.Store(c.Paced)
}

type watchedProgram struct {
	backend.Program
	backend.Timed
	watch *watch
}

// Bind binds buffers if the program supports it.
func (p *watchedProgram) Bind(graph string, bindings []backend.Binding) error {
	if b, ok := p.Program.(backend.Binder); ok {
		return b.Bind(graph, bindings)
	}
	return nil
}

func (p *watchedProgram) Run(ctx context.Context, graph string, bindings []backend.Binding) error {
	err := p.Program.Run(ctx, graph, bindings)
	if err == nil {
		p.watch.note(p.RunCost())
	}
	return err
}
