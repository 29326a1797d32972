package engine

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/arena"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/graphswap"
)

// resolved holds options after they were checked against a model and a device. All
// fields of Options have their final values, and Plan is the plan that the engine
// carries out.
type resolved struct {
	Options
	// planName is Plan without its suffix for the spare graph slot, which may
	// require or forbid one.
	planName                    string
	spareRequired, spareRefused bool
	// start tells which graphs of each block are loaded before the first prompt, and
	// used which graphs are ever loaded.
	start, used graphswap.Variant
	// separate is set if each graph gets its own image. deviceSwitches is set if QNN's
	// library swaps the graphs of one image.
	separate, deviceSwitches bool
	// headRows are the widths of the head's graphs, ascending.
	headRows []int
	// reason explains a plan that the options did not name.
	reason string
	// rowBytes is the size of a row of hidden states.
	rowBytes int
	// deviceErr is the error with which [New] rejects the options on this device. [Look] describes
	// the options nevertheless.
	deviceErr error
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
	r := resolved{Options: o}
	r.fillSizes(c)
	r.fillWidths(device.SharesConstants)
	r.fillHead(c)
	r.fillServices()
	if err := r.check(c); err != nil {
		return r, err
	}
	r.decide(device)
	r.deviceErr = r.checkDevice(device)
	r.planName, r.spareRequired, r.spareRefused = graphswap.CutSpare(r.Plan)
	r.start, r.used = planGraphs(r.Plan)
	r.separate = r.Plan != "" && r.Plan != graphswap.PlanResident && !r.deviceSwitches
	r.headRows = r.headWidths(device.SharesConstants)
	return r, nil
}

func (r *resolved) fillSizes(c model.Config) {
	if r.Recipe == (model.Recipe{}) {
		r.Recipe = model.Recipes[0]
	}
	if r.Blocks == 0 {
		r.Blocks = defaultBlocks(c)
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
	r.Rows = slices.Clone(r.Rows)
	if len(r.Rows) > 0 {
		return
	}
	r.Rows = []int{128, 1}
	n := r.Sequences
	switch {
	case r.Plan != "" || r.Exact:
		r.Rows = []int{128, 32}
		return
	case r.Draft.Auto && shared: // with two rows a request risks little
		r.Rows = []int{128, 32, 8, 2, 1}
	case r.Draft != (draft.Mode{}) && !r.Draft.Auto:
		r.Rows = []int{128, 32, 8, 1}
	}
	if n > 1 && n < 128 && (r.Draft.Auto || r.Draft == (draft.Mode{})) {
		r.Rows = insertWidth(r.Rows, n)
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

// aligned reports whether the rows of a pass can be cut into slices that are as
// wide as the decode graph.
func (r *resolved) aligned() bool { return r.Rows[1]*r.rowBytes%arena.Alignment == 0 }

func (r *resolved) fillHead(c model.Config) {
	if r.Top == 0 {
		r.Top = defaultTop
	}
	r.Top = min(max(r.Top, 0), c.Vocab)
	if r.HeadRows == 0 {
		r.HeadRows = r.Rows[len(r.Rows)-1]
	}
	if r.Exact {
		r.HeadRows = exactRows(r.Plan, r.Rows)
	}
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
	for i, rows := range r.Rows {
		if rows < 1 || rows > maxRows || i > 0 && rows >= r.Rows[i-1] {
			return fmt.Errorf("engine: %w: widths %v: want descending numbers from 1 to %d", ErrOptions, r.Rows, maxRows)
		}
	}
	if err := r.checkPlan(); err != nil {
		return err
	}
	switch {
	case r.Blocks < 1 || r.Blocks > c.Layers:
		return fmt.Errorf("engine: %w: blocks=%d of %d layers: want 1..%d", ErrOptions, r.Blocks, c.Layers, c.Layers)
	case r.Context < 1 || r.Context > c.ContextLength:
		return fmt.Errorf("engine: %w: context=%d: want 1..%d, which is the model's limit", ErrOptions, r.Context, c.ContextLength)
	case r.FirstContext < 1:
		return fmt.Errorf("engine: %w: first context=%d: want 1..%d", ErrOptions, r.FirstContext, r.Context)
	case r.Sequences < 1 || r.Sequences > maxSlots/r.Context:
		return fmt.Errorf("engine: %w: %d sequences of %d tokens each: want 1..%d slots in total", ErrOptions, r.Sequences, r.Context, maxSlots)
	case r.HeadRows < 1 || r.HeadRows > maxRows:
		return fmt.Errorf("engine: %w: the head's graph has %d rows: want 1..%d", ErrOptions, r.HeadRows, maxRows)
	}
	return nil
}

// checkPlan checks the plan with widths that are checked.
func (r *resolved) checkPlan() error {
	if r.Plan == "" {
		return nil
	}
	if err := CheckPlan(r.Plan); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if err := CheckPlanRows(r.Plan, r.Rows); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if !r.aligned() {
		return fmt.Errorf("engine: %w: plan %s: %d rows of %d bytes: want a multiple of %d", ErrOptions, r.Plan, r.Rows[1], r.rowBytes, arena.Alignment)
	}
	return nil
}

// decide replaces the plan library by the plan that it selects on a device, and gives the reason
// in one sentence.
func (r *resolved) decide(c backend.Capabilities) {
	switch {
	case r.Plan == graphswap.PlanLibrary && c.SwapsGraphs:
		r.Plan, r.deviceSwitches = graphswap.PlanSeparate, true
		r.reason = "the device's library switches the graphs of each block itself, inside the executes that need them"
	case r.Plan == graphswap.PlanLibrary:
		r.Plan = graphswap.PlanSwitch
		r.reason = "the device's library cannot switch graphs itself, so the engine does"
	}
}

// checkDevice returns an error if the device cannot carry out the plan, or only at a
// cost that the plan's name hides.
func (r *resolved) checkDevice(c backend.Capabilities) error {
	if r.Plan == graphswap.PlanResident && !c.SharesConstants {
		return fmt.Errorf("engine: %w: plan %s: %s stores the weights of each graph separately: choose plan %s to load them twice",
			ErrOptions, r.Plan, c.Name, graphswap.PlanSeparate)
	}
	if start, used := planGraphs(r.Plan); r.Exact && start != used {
		return fmt.Errorf("engine: %w: %w", ErrOptions, noExactWidth(r.Plan))
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
		return []int{r.HeadRows}
	case r.Draft.Auto && shared:
		rows = slices.DeleteFunc(slices.Clone(r.Rows), func(w int) bool { return w > r.widestHead() })
	case r.Draft != (draft.Mode{}) && !r.Draft.Auto:
		rows = slices.Clone(r.Rows[max(len(r.Rows)-maxHeads, 0):])
	case r.Sequences > r.HeadRows:
		return []int{r.HeadRows, min(r.Sequences, maxRows)}
	default:
		return []int{r.HeadRows}
	}
	slices.Reverse(rows)
	return rows
}

// widestHead returns the widest graph of the head with automatic drafts: wider ones need
// more memory and are hardly ever filled.
func (r *resolved) widestHead() int { return max(maxDrafts+1, r.Sequences, r.Rows[len(r.Rows)-1]) }

// planGraphs returns which graphs of each block a plan loads before the first prompt,
// and which it ever loads.
func planGraphs(plan string) (start, used graphswap.Variant) {
	switch name, _, _ := graphswap.CutSpare(plan); name {
	case "", graphswap.PlanSeparate, graphswap.PlanResident:
		return graphswap.Both, graphswap.Both
	case graphswap.PlanPrefillOnly:
		return graphswap.Prefill, graphswap.Prefill
	case graphswap.PlanDecodeOnly:
		return graphswap.Decode, graphswap.Decode
	}
	return graphswap.Prefill, graphswap.Both
}

// oneGraph returns the configuration in which one graph of each block is loaded. If
// the known costs say nothing about memory, it has a spare graph slot until the
// device refuses it.
func (r *resolved) oneGraph() graphswap.Config {
	one := graphswap.Config{Blocks: r.Blocks, PrefillRows: r.Rows[0], DecodeRows: r.partRows(), Residency: graphswap.OneGraph, Spare: true}
	if r.knowsMemory() {
		fits := r.Costs.Configs(&graphswap.Setting{
			Blocks: []int{one.Blocks}, PrefillRows: []int{one.PrefillRows}, DecodeRows: []int{one.DecodeRows}, Context: r.Context * r.Sequences,
		})
		// Nothing fits by the costs of a model that is too large: the device decides.
		one.Spare = len(fits) > 0 && fits[0].Spare
	}
	return one
}

// blockRange returns the layers [first, end) of a block.
func (r *resolved) blockRange(block, layers int) (first, end int) {
	return images.BlockRange(block, r.Blocks, layers)
}

// blockLayers returns the number of layers of each block.
func (r *resolved) blockLayers(layers int) (counts []int) {
	for block := range r.Blocks {
		first, end := r.blockRange(block, layers)
		counts = append(counts, end-first)
	}
	return counts
}

// partRows returns the number of rows in a part of a pass. With a plan, the rows of the
// widest pass are cut into slices as wide as the decode graph; without a plan, passes
// are not cut.
func (r *resolved) partRows() int {
	if r.Plan != "" {
		return r.Rows[len(r.Rows)-1]
	}
	return r.Rows[0]
}
