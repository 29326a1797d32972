package contact

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/sdnpu/sdnpu/adapters/profile"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Setup says what is met and how.
type Setup struct {
	// Open opens the device, Float the float device that is the reference where
	// no texts are recorded. Both are closed by Run.
	Open  func(ctx context.Context) (backend.Device, error)
	Float func() backend.Device
	// Program is our version.
	Program   string
	Model     *model.Model
	Tokenizer *tokenizer.Tokenizer
	// Options are the engine's that compares texts, whose Plan is not looked at.
	// Prepare, when set, completes them for the device.
	Options engine.Options
	Prepare func(dev backend.Device, o *engine.Options) error
	About   profile.About
	// Rows are the widths that are measured, descending.
	Rows []int
	// Tokens bounds each text that is compared.
	Tokens int
	// Repeats is how often each thing is measured; medians count.
	Repeats int
	// Keep keeps a profile of what was measured and returns its file.
	Keep func(*graphswap.Profile, *engine.Measurements, backend.Capabilities) (string, error)
	// Save writes the report as it stands, after every step.
	Save func(*Report) error
	// Say is told what is being done.
	Say func(text string)
}

// errNotReached is the error of steps that need what an earlier one failed to give.
var errNotReached = errors.New("not reached: a step before it failed")

// visit is one first contact.
type visit struct {
	Setup
	dev      backend.Device
	engine   *engine.Engine
	measured *engine.Measurements
	report   *Report
	errs     []error
}

// Run goes through all steps. The report is never nil; the error joins those of
// the steps that failed.
func Run(ctx context.Context, s Setup) (*Report, error) {
	c := s.Model.Config()
	v := &visit{Setup: s, report: &Report{
		Schema: Schema, Made: time.Now().UTC().Format(time.RFC3339), Program: s.Program,
		Host: Host{runtime.GOOS, runtime.GOARCH, runtime.NumCPU()},
		Model: Model{
			Name: s.About.Model, Digest: s.Model.Digest(), Recipe: s.About.Recipe, Layers: c.Layers, Hidden: c.Hidden, Vocab: c.Vocab,
			Context: s.Options.ContextOf(c),
		},
		Subject: "no device could be opened: nothing was measured",
	}}
	v.step(ctx, "open", true, v.open)
	open := v.dev != nil
	v.step(ctx, "tokens", open, v.tokens)
	v.step(ctx, "commit", v.engine != nil, v.commit)
	v.closeEngine()
	v.step(ctx, "copies", open, v.copies)
	v.step(ctx, "graphs", open, v.graphs)
	v.step(ctx, "profile", v.measured != nil, v.profile)
	if open {
		v.errs = append(v.errs, v.dev.Close())
	}
	return v.report, errors.Join(v.errs...)
}

// step tries one thing and saves what is known then. An aborted contact goes on
// to say of each step that it was.
func (v *visit) step(ctx context.Context, name string, reached bool, try func(context.Context) error) {
	begin, err := time.Now(), errNotReached
	if reached {
		v.Say(name)
		if err = ctx.Err(); err == nil {
			err = try(ctx)
		}
	}
	s := Step{Name: name, OK: err == nil, TookMs: ms(time.Since(begin))}
	if err != nil {
		if s.Error = err.Error(); reached {
			v.errs = append(v.errs, fmt.Errorf("contact: %s: %w", name, err))
		}
	}
	v.report.Steps = append(v.report.Steps, s)
	if err := v.Save(v.report); err != nil {
		v.errs = append(v.errs, err)
	}
}

func (v *visit) open(ctx context.Context) error {
	dev, err := v.Open(ctx)
	if err != nil {
		return err
	}
	v.dev = dev
	c := dev.Capabilities()
	v.report.Device = &Device{c.Name, string(c.Lane), c.Provider, c.BuildID, c.SoC, c.SharesConstants, c.SwapsGraphs, c.Fingerprint}
	v.tellSubject("")
	if v.Prepare != nil {
		return v.Prepare(dev, &v.Options)
	}
	return nil
}

// tellSubject says what the figures are of.
func (v *visit) tellSubject(paced string) {
	c := v.dev.Capabilities()
	switch {
	case c.Lane != backend.NPU:
		v.report.Subject = c.Provider + ", which is no NPU: the figures are this machine's"
	case paced != "":
		v.report.Subject = "an emulator in the time of " + paced + ": no NPU was measured"
	case runtime.GOARCH == "amd64":
		v.report.Subject = fmt.Sprintf("%s on %s/%s, where it emulates the NPU: the figures are this machine's", c.Provider, runtime.GOOS, runtime.GOARCH)
	default:
		v.report.Subject = fmt.Sprintf("%s on %s/%s", c.Provider, runtime.GOOS, runtime.GOARCH)
	}
}

func (v *visit) closeEngine() {
	if v.engine != nil {
		v.errs = append(v.errs, v.engine.Close())
		v.engine = nil
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
