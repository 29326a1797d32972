package engine

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/arena"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/graphswap"
)

// resolved holds options after they were checked against a model and a device, and the
// shape of the graphs that they ask for.
type resolved struct {
	settings
	shape shape
	// deviceErr is the error with which [New] rejects the options on this device. [Look] describes
	// the options nevertheless.
	deviceErr error
}

// settings holds the part of the options that is the same for each shape of the graphs.
// All fields have their final values, except Rows, Blocks and Plan: these hold what the
// caller has asked for, and the shape says what the engine does.
type settings struct {
	Options
	// rowBytes is the size of a row of hidden states.
	rowBytes int
}

// resolve checks the options and returns what follows from them on a device. [PlanAuto]
// means here that a plan for each prompt switches graphs: see alternatives. The order
// matters, because each step reads the results of those before it:
//
//  1. sizes that follow from the model: recipe, blocks, contexts, sequences;
//  2. the graph widths;
//  3. the head's width and top;
//  4. all numbers are checked;
//  5. the device decides what library means, and may reject the plan;
//  6. what follows from plan and widths.
func (o Options) resolve(c model.Config, device backend.Capabilities) (resolved, error) {
	return o.resolveWith(c, device, o.Plan, o.Rows)
}

// resolveWith resolves the options with another plan and other widths than theirs.
func (o Options) resolveWith(c model.Config, device backend.Capabilities, plan string, rows []int) (resolved, error) {
	r := resolved{settings: settings{Options: o}, shape: shape{rows: slices.Clone(rows), blocks: o.Blocks, plan: plan, exact: o.Exact}}
	r.fillSizes(c)
	r.fillWidths(device.SharesConstants)
	r.fillHead(c)
	r.fillServices()
	if err := r.check(c); err != nil {
		return r, err
	}
	r.decide(device)
	r.deviceErr = r.checkDevice(device)
	r.shape.settle()
	r.shape.headRows = r.headWidths(device.SharesConstants)
	return r, nil
}

func (r *resolved) fillSizes(c model.Config) {
	if r.Recipe == (model.Recipe{}) {
		r.Recipe = model.Recipes[0]
	}
	if r.shape.blocks == 0 {
		r.shape.blocks = defaultBlocks(c)
	}
	r.Context = r.ContextOf(c)
	if r.FirstContext == 0 {
		r.FirstContext = firstContext
	}
	r.FirstContext = min(r.FirstContext, max(r.Context, 1))
	if r.Sequences == 0 {
		r.Sequences = 1
	}
	r.rowBytes = c.Hidden * r.Recipe.Activations.Size()
}

// defaultBlocks returns how many blocks are needed if each has at most blockParameters
// weights.
func defaultBlocks(c model.Config) int {
	attention := 2 * c.HeadDim * (c.Heads + c.KVHeads)
	layer := c.Hidden * (attention + 3*c.FFN)
	blocks := (c.Layers*layer + blockParameters - 1) / blockParameters
	return min(max(blocks, 1), c.Layers)
}

// fillWidths sets the widths. If the device does not share constants, each width is a copy
// of the weights: automatic drafts then have no widths of their own.
func (r *resolved) fillWidths(shared bool) {
	if len(r.shape.rows) > 0 {
		return
	}
	r.shape.rows = []int{128, 1}
	n := r.Sequences
	switch {
	case r.shape.plan != "" || r.Exact:
		r.shape.rows = []int{128, 32}
		return
	case r.Draft.Auto && shared: // with two rows a request risks little
		r.shape.rows = []int{128, 32, 8, 2, 1}
	case r.Draft != (draft.Mode{}) && !r.Draft.Auto:
		r.shape.rows = []int{128, 32, 8, 1}
	}
	if n > 1 && n < 128 && (r.Draft.Auto || r.Draft == (draft.Mode{})) {
		r.shape.rows = insertWidth(r.shape.rows, n)
	}
}

// insertWidth adds a width to descending ones that do not have it.
func insertWidth(rows []int, n int) []int {
	at, found := slices.BinarySearchFunc(rows, n, func(w, n int) int { return n - w })
	if found {
		return rows
	}
	return slices.Insert(rows, at, n)
}

func (r *resolved) fillHead(c model.Config) {
	if r.Top == 0 {
		r.Top = defaultTop
	}
	r.Top = min(max(r.Top, 0), c.Vocab)
}

// narrowestHead returns the width of the head's graph with the fewest rows.
func (r *resolved) narrowestHead() int {
	switch {
	case r.Exact:
		return r.shape.exactRows()
	case r.HeadRows != 0:
		return r.HeadRows
	}
	return r.shape.rows[len(r.shape.rows)-1]
}

// fillServices sets defaults for the database, the logger and other optional services.
func (r *resolved) fillServices() {
	if r.Database == nil {
		r.Database = draft.NewDatabase(databaseTokens)
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	if r.Progress == nil {
		r.Progress = func(Progress) {}
	}
}

func (r *resolved) check(c model.Config) error {
	for i, rows := range r.shape.rows {
		if rows < 1 || rows > maxRows || i > 0 && rows >= r.shape.rows[i-1] {
			return fmt.Errorf("engine: %w: widths %v: want descending numbers from 1 to %d", ErrOptions, r.shape.rows, maxRows)
		}
	}
	if err := r.checkPlan(); err != nil {
		return err
	}
	switch {
	case r.shape.blocks < 1 || r.shape.blocks > c.Layers:
		return fmt.Errorf("engine: %w: blocks=%d of %d layers: want 1..%d", ErrOptions, r.shape.blocks, c.Layers, c.Layers)
	case r.Context < 1 || r.Context > c.ContextLength:
		return fmt.Errorf("engine: %w: context=%d: want 1..%d, which is the model's limit", ErrOptions, r.Context, c.ContextLength)
	case r.FirstContext < 1:
		return fmt.Errorf("engine: %w: first context=%d: want 1..%d", ErrOptions, r.FirstContext, r.Context)
	case r.Sequences < 1 || r.Sequences > maxSlots/r.Context:
		return fmt.Errorf("engine: %w: %d sequences of %d tokens each: want 1..%d slots in total", ErrOptions, r.Sequences, r.Context, maxSlots)
	case r.narrowestHead() < 1 || r.narrowestHead() > maxRows:
		return fmt.Errorf("engine: %w: the head's graph has %d rows: want 1..%d", ErrOptions, r.HeadRows, maxRows)
	}
	return nil
}

// checkPlan checks the plan with widths that are checked.
func (r *resolved) checkPlan() error {
	if r.shape.plan == "" {
		return nil
	}
	if err := CheckPlan(r.shape.plan); err != nil {
		return fmt.Errorf("engine: %w: plan %.80q: %w", ErrOptions, r.shape.plan, err)
	}
	if err := CheckPlanRows(r.shape.plan, r.shape.rows); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if !aligned(r.shape.rows, r.rowBytes) {
		return fmt.Errorf("engine: %w: plan %s: %d rows of %d bytes: want a multiple of %d", ErrOptions, r.shape.plan, r.shape.rows[1], r.rowBytes, arena.Alignment)
	}
	return nil
}

// decide replaces the plan library by the plan that it selects on a device, and gives the reason
// in one sentence.
func (r *resolved) decide(c backend.Capabilities) {
	switch {
	case r.shape.plan == graphswap.PlanLibrary && c.SwapsGraphs:
		r.shape.plan, r.shape.deviceSwitches = graphswap.PlanSeparate, true
		r.shape.reason = "the device's library switches the graphs of each block itself, inside the executes that need them"
	case r.shape.plan == graphswap.PlanLibrary:
		r.shape.plan = graphswap.PlanSwitch
		r.shape.reason = "the device's library cannot switch graphs itself, so the engine does"
	}
}

// checkDevice returns an error if the device cannot carry out the plan, or only at a
// cost that the plan's name hides.
func (r *resolved) checkDevice(c backend.Capabilities) error {
	if r.shape.plan == graphswap.PlanResident && !c.SharesConstants {
		return fmt.Errorf("engine: %w: plan %s: %s stores the weights of each graph separately: choose plan %s to load them twice",
			ErrOptions, r.shape.plan, c.Name, graphswap.PlanSeparate)
	}
	if start, used := planGraphs(r.shape.plan); r.Exact && start != used {
		return fmt.Errorf("engine: %w: %w", ErrOptions, noExactWidth(r.shape.plan))
	}
	return nil
}

// maxHeads bounds the number of head widths with drafts. The smallest widths are used.
const maxHeads = 3

// headWidths returns the widths of the head's graphs, ascending. In a pass that several
// requests share, each request needs a row of logits, and so does each draft.
//
// If the device does not share constants, each width is a copy of the model's largest
// matrix: automatic drafts then have no widths of their own.
func (r *resolved) headWidths(shared bool) (rows []int) {
	switch {
	case r.Exact: // one width only, because another width may give other logits
		return []int{r.narrowestHead()}
	case r.Draft.Auto && shared:
		rows = slices.DeleteFunc(slices.Clone(r.shape.rows), func(w int) bool { return w > r.widestHead() })
	case r.Draft != (draft.Mode{}) && !r.Draft.Auto:
		rows = slices.Clone(r.shape.rows[max(len(r.shape.rows)-maxHeads, 0):])
	case r.Sequences > r.narrowestHead():
		return []int{r.narrowestHead(), min(r.Sequences, maxRows)}
	default:
		return []int{r.narrowestHead()}
	}
	slices.Reverse(rows)
	return rows
}

// widestHead returns the widest graph of the head with automatic drafts: wider ones need
// more memory and are hardly ever filled.
func (r *resolved) widestHead() int {
	return max(maxDrafts+1, r.Sequences, r.shape.rows[len(r.shape.rows)-1])
}

// oneGraph returns the configuration in which one graph of each block is loaded. If
// the known costs say nothing about memory, it has a spare graph slot until the
// device refuses it.
func (o *settings) oneGraph(s *shape) graphswap.Config {
	one := graphswap.Config{Blocks: s.blocks, PrefillRows: s.rows[0], DecodeRows: s.partRows(), Residency: graphswap.OneGraph, Spare: true}
	if o.knowsMemory() {
		fits := o.Costs.Configs(&graphswap.Setting{
			Blocks: []int{one.Blocks}, PrefillRows: []int{one.PrefillRows}, DecodeRows: []int{one.DecodeRows}, Context: o.Context * o.Sequences,
		})
		// Nothing fits by the costs of a model that is too large: the device decides.
		one.Spare = len(fits) > 0 && fits[0].Spare
	}
	return one
}
