package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/imagecache"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/spec/tokendb"
)

// loaded is a model on a device. Close gives everything back.
type loaded struct {
	file      *gguf.File
	device    backend.Device
	engine    *engine.Engine
	tokenizer *tokenizer.Tokenizer
	prompt    []int32 // what the job's prompt became
	layers    int
	madeFor   int         // the longest context of the model
	flips     flipsFile   // what flips of it are measured of
	database  *tokendb.DB // nil without one on disk
}

// job says what to load and how.
type job struct {
	path               string
	config             config.Config
	context, sequences int
	// prompt, when set, encodes a prompt, so that one which does not fit is
	// refused before anything is compiled.
	prompt   func(*tokenizer.Tokenizer) ([]int32, error)
	logger   *slog.Logger
	progress func(engine.Progress)
	// idleSwitch is when wide graphs come back, see [engine.Options].
	idleSwitch time.Duration
	// foretell says what a prompt is to take where no plan needs to know.
	foretell bool
	// cost, when set, is what a pass is taken to cost.
	cost func(rows int) time.Duration
	// threadTime, when set, tells drafts' processor time.
	threadTime func() time.Duration
}

// rows are the widths that somebody asked for; else the engine chooses, by the
// number of sequences.
func (j job) rows() []int {
	if j.config.Origin["sdnpu.rows"] == "" {
		return nil
	}
	return j.config.Rows
}

// undrafted says why drafts that are asked for never come to be and what to do,
// "" where they do: each draft is a row beside the token that is to be computed.
func (j job) undrafted() string {
	rows := j.rows()
	if j.config.Draft == (draft.Mode{}) || len(rows) == 0 { // the engine's own widths have room
		return ""
	}
	switched, exactly := switchingPlan(j.config.Plan), ""
	if switched == engine.PlanAuto && !engine.Exchangeable(rows) { // then every graph stays
		switched = ""
	}
	if j.config.Exact {
		exactly = " and an exact width"
	}
	if rows[0] == 1 || switched+exactly != "" && rows[len(rows)-1] == 1 {
		return fmt.Sprintf("drafts (%s) find no room: behind the prompt only graphs of one row are left, of widths %s with plan %s%s; "+
			"take rows=128,32, or draft=off", j.config.Draft, commas(rows), cmp.Or(switched, graphswap.PlanBoth), exactly)
	}
	return ""
}

// planRows refuses a plan beside widths that it cannot have, and says where both
// come from.
func (j job) planRows() error {
	rows := j.rows()
	if len(rows) == 0 { // the engine's own widths fit
		return nil
	}
	if err := engine.CheckPlanRows(switchingPlan(j.config.Plan), rows); err != nil {
		return fmt.Errorf("sdnpu.rows = %s in %s and sdnpu.plan = %s in %s: %w; take rows=128,32, or leave one of them out",
			commas(rows), j.config.Origin["sdnpu.rows"], j.config.Plan, j.config.Origin["sdnpu.plan"], err)
	}
	return nil
}

// switchingPlan is the plan as the engine takes it: both graphs beside each
// other are its own way, weights stored once where the device can.
func switchingPlan(plan string) string {
	if plan == graphswap.PlanBoth {
		return ""
	}
	return plan
}

// load opens the model, the device and the engine.
func (s settings) load(ctx context.Context, arg0 string, j job) (_ *loaded, err error) {
	l := &loaded{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if err := j.planRows(); err != nil {
		return nil, err
	}
	if l.file, err = openGGUF(j.path); err != nil {
		return nil, err
	}
	m, err := model.Load(l.file)
	if err != nil {
		return nil, withModelRemedy(err)
	}
	l.layers, l.madeFor = m.Config().Layers, m.Config().ContextLength
	if reason := j.undrafted(); reason != "" {
		j.logger.Warn(reason)
	}
	if l.tokenizer, err = tokenizer.New(l.file); err != nil {
		return nil, withModelRemedy(err)
	}
	if l.prompt, err = j.encode(l.tokenizer, m.Config()); err != nil {
		return nil, err
	}
	if l.device, err = s.openDevice(ctx, arg0, j.logger); err != nil {
		return nil, err
	}
	options, err := s.engineOptions(ctx, j, m, l.tokenizer, modelName(l.file))
	if err != nil {
		return nil, err
	}
	l.database, options.Database = j.openDatabase(l.tokenizer)
	if err := s.compileElsewhere(l.device, l.file, j.logger, &options); err != nil {
		return nil, err
	}
	s.knownCosts(l.device.Capabilities(), m, &options, j.logger)
	if l.flips, err = flipsOf(l.device.Capabilities(), m, options); err != nil {
		return nil, err
	}
	s.knownFlips(l.flips, &options)
	if len(s.prepared) > 0 {
		s.announcePrepared(m.Digest(), l.device.Capabilities(), j.logger)
	}
	if l.engine, err = engine.New(ctx, l.device, m, l.tokenizer, options); err != nil {
		return nil, err
	}
	return l, nil
}

// encode returns the job's prompt, if it has one that fits the model's context.
func (j job) encode(t *tokenizer.Tokenizer, c model.Config) ([]int32, error) {
	if j.prompt == nil {
		return nil, nil
	}
	ids, err := j.prompt(t)
	if err != nil {
		return nil, err
	}
	if err := checkPrompt(ids, c.Vocab); err != nil {
		return nil, err
	}
	if context := (engine.Options{Context: j.context}).ContextOf(c); len(ids) > context {
		return nil, fmt.Errorf("%w: %s", &engine.PromptTooLongError{Tokens: len(ids), Context: context}, roomRemedy(context, c.ContextLength))
	}
	return ids, nil
}

// checkPrompt refuses what is no prompt of a vocabulary.
func checkPrompt(ids []int32, vocab int) error {
	if len(ids) == 0 {
		return fmt.Errorf("%w: the prompt is empty: one token or more wanted", engine.ErrRequest)
	}
	for i, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("%w: token %d of the prompt is %d: 0 to %d wanted, the model's vocabulary", engine.ErrRequest, i, id, vocab-1)
		}
	}
	return nil
}

// engineOptions are those of the job; the recipe may have to be calibrated for
// them.
func (s settings) engineOptions(ctx context.Context, j job, m *model.Model, tok *tokenizer.Tokenizer, name string) (engine.Options, error) {
	recipe, err := s.recipe(ctx, j, m, tok, name)
	return engine.Options{
		Plan: switchingPlan(j.config.Plan), Recipe: recipe, Rows: j.rows(), Blocks: j.config.Blocks, Draft: j.config.Draft, Cost: j.cost, Foretell: j.foretell, IdleSwitch: j.idleSwitch, ThreadTime: j.threadTime, ProcessTime: processorTime, AlwaysCalibrate: j.config.Calibration == "on", Exact: j.config.Exact,
		Context: j.context, FirstContext: j.config.FirstContext, Sequences: j.sequences,
		Cache: s.openCache(j.logger), Name: name, Logger: j.logger, Progress: j.progress,
	}, err
}

// modelName is what people call a model: the name in the file, and the file's.
func modelName(f *gguf.File) string {
	base := filepath.Base(f.Path())
	if name, err := f.Str("general.name"); err == nil && name != "" {
		return name + ", " + base
	}
	return base
}

// openCache opens the image cache; without one every start compiles.
func (s settings) openCache(logger *slog.Logger) *imagecache.Store {
	if s.cache == "" {
		return nil
	}
	store, err := s.openStore(logger)
	if err != nil {
		logger.Warn("no image cache: every start compiles anew", "detail", err, "remedy", "set SDNPU_CACHE to a folder that can be written, or to off")
		return nil
	}
	return store
}

// openStore opens the folder of the image cache, which is made where it is
// missing.
func (s settings) openStore(logger *slog.Logger) (*imagecache.Store, error) {
	if err := os.MkdirAll(s.cache, 0o700); err != nil {
		return nil, err
	}
	limit, err := s.cacheLimit()
	if err != nil {
		return nil, err
	}
	return imagecache.Open(s.cache, imagecache.Options{Limit: limit, Prepared: s.prepared, Logger: logger})
}

// describe is a device in one line, with whose time its calls take.
func describe(c backend.Capabilities) string {
	text := fmt.Sprintf("%s, provider %s, build %s", c.Name, c.Provider, c.BuildID)
	if c.SoC != "" {
		text += ", SoC " + c.SoC
	}
	text += ", lane " + string(c.Lane)
	if pace := paceOf(c); pace != nil {
		text += ", " + pace.String()
	}
	return text
}

// Close closes what was opened, the last first.
func (l *loaded) Close() error {
	var errs []error
	if l.engine != nil {
		errs = append(errs, l.engine.Close())
	}
	if l.database != nil {
		errs = append(errs, l.database.Close())
	}
	if l.device != nil {
		errs = append(errs, l.device.Close())
	}
	if l.file != nil {
		errs = append(errs, l.file.Close())
	}
	return errors.Join(errs...)
}
