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

// resolved holds options that were checked against a model and a device. Every field of Options is
// set, and Plan is the plan that the engine carries out.
type resolved struct {
	Options
	// planName is Plan without its spare slot, which may be required or forbidden.
	planName                    string
	spareRequired, spareRefused bool
	// start holds the graphs of each block that are loaded before the first prompt, and used the
	// graphs that are ever loaded.
	start, used graphswap.Variant
	// separate gives each graph its own image. deviceSwitches lets the device's
	// library switch between the graphs of one image.
	separate, deviceSwitches bool
	// headRows are the widths of the head's graphs, ascending.
	headRows []int
	// reason explains a plan that the options did not name. widthsReason is set if
	// the widths ruled out every plan that auto could choose.
	reason, widthsReason string
	// deviceErr is the error with which [New] rejects the options on this device. [Look] describes
	// the options nevertheless.
	deviceErr error
}

// resolve checks the options and returns what follows from them. If device is nil,
// what depends on the device stays open: the plan auto, and shared images. The order
// matters, because each step reads the results of those before it:
//
//  1. sizes that follow from the model: recipe, blocks, contexts, sequences;
//  2. the graph widths;
//  3. the plan: auto keeps every graph if the widths rule out switching;
//  4. the head's width and top;
//  5. all numbers are checked;
//  6. the device decides what auto and library mean, and may reject the plan;
//  7. what follows from plan and widths.
func (o Options) resolve(c model.Config, device *backend.Capabilities) (resolved, error) {
	r := resolved{Options: o}
	r.fillSizes(c)
	shared := device == nil || device.SharesConstants
	r.fillWidths(shared)
	rowBytes := c.Hidden * r.Recipe.Activations.Size()
	if r.Plan == PlanAuto {
		if r.widthsReason = r.ruleOutSwitching(rowBytes); r.widthsReason != "" {
			r.Plan = ""
		}
	}
	r.fillHead(c)
	r.fillServices()
	if err := r.check(c, rowBytes); err != nil {
		return r, err
	}
	if device != nil {
		r.decide(*device)
		r.deviceErr = r.checkDevice(*device)
	}
	r.planName, r.spareRequired, r.spareRefused = graphswap.CutSpare(r.Plan)
	r.start, r.used = planGraphs(r.Plan)
	r.separate = r.Plan != "" && r.Plan != graphswap.PlanResident && !r.deviceSwitches
	r.headRows = r.headWidths(shared)
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
}

// defaultBlocks returns the number of blocks of at most blockParameters.
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
	case r.Draft != (draft.Mode{}) && (shared || !r.Draft.Auto):
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

// ruleOutSwitching explains why no plan can switch graphs of the widths; it returns
// "" if one can.
func (r *resolved) ruleOutSwitching(rowBytes int) string {
	switch {
	case !Exchangeable(r.Rows):
		return fmt.Sprintf("no plan switches graphs of widths %v: want two, the first a multiple of the second; every graph stays", r.Rows)
	case !r.aligned(rowBytes):
		return fmt.Sprintf("no plan switches graphs of %d rows of %d bytes: want a multiple of %d; every graph stays", r.Rows[1], rowBytes, arena.Alignment)
	}
	return ""
}

// aligned reports whether a pass can be cut into parts of the decode graph's rows.
func (r *resolved) aligned(rowBytes int) bool { return r.Rows[1]*rowBytes%arena.Alignment == 0 }

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

// fillServices sets what the engine calls, but does not need.
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

func (r *resolved) check(c model.Config, rowBytes int) error {
	for i, rows := range r.Rows {
		if rows < 1 || rows > maxRows || i > 0 && rows >= r.Rows[i-1] {
			return fmt.Errorf("engine: %w: widths %v: want descending numbers in 1..%d", ErrOptions, r.Rows, maxRows)
		}
	}
	if err := r.checkPlan(rowBytes); err != nil {
		return err
	}
	switch {
	case r.Blocks < 1 || r.Blocks > c.Layers:
		return fmt.Errorf("engine: %w: blocks=%d of %d layers: want 1..%d", ErrOptions, r.Blocks, c.Layers, c.Layers)
	case r.Context < 1 || r.Context > c.ContextLength:
		return fmt.Errorf("engine: %w: context=%d: want 1..%d, the model's", ErrOptions, r.Context, c.ContextLength)
	case r.FirstContext < 1:
		return fmt.Errorf("engine: %w: first context=%d: want 1..%d", ErrOptions, r.FirstContext, r.Context)
	case r.Sequences < 1 || r.Sequences > maxSlots/r.Context:
		return fmt.Errorf("engine: %w: %d sequences of %d tokens: want 1..%d slots in all", ErrOptions, r.Sequences, r.Context, maxSlots)
	case r.HeadRows < 1 || r.HeadRows > maxRows:
		return fmt.Errorf("engine: %w: head of %d rows: want 1..%d", ErrOptions, r.HeadRows, maxRows)
	}
	return nil
}

// checkPlan checks the plan with widths that are checked.
func (r *resolved) checkPlan(rowBytes int) error {
	if r.Plan == "" {
		return nil
	}
	if err := CheckPlan(r.Plan); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if err := CheckPlanRows(r.Plan, r.Rows); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if !r.aligned(rowBytes) {
		return fmt.Errorf("engine: %w: plan %s: %d rows of %d bytes: want a multiple of %d", ErrOptions, r.Plan, r.Rows[1], rowBytes, arena.Alignment)
	}
	return nil
}

// decide replaces the plans auto and library by the plans that they select on a device, and gives
// the reason in one sentence.
func (r *resolved) decide(c backend.Capabilities) {
	switch {
	case r.widthsReason != "":
		r.reason = r.widthsReason
	case r.Plan == graphswap.PlanLibrary && c.SwapsGraphs:
		r.Plan, r.deviceSwitches = graphswap.PlanSeparate, true
		r.reason = "the device's library switches the graphs of each block itself, inside the executes that need them"
	case r.Plan == graphswap.PlanLibrary:
		r.Plan = graphswap.PlanSwitch
		r.reason = "the device's library cannot switch graphs itself, so the engine does"
	case r.Plan != PlanAuto:
	case c.SharesConstants:
		r.Plan = graphswap.PlanResident
		r.reason = "the graphs of a block share their weights on this device, so none has to go"
	case r.knownConfig().Residency == graphswap.BothGraphs:
		r.Plan = graphswap.PlanSeparate
		r.reason = "both graphs of every block fit into the session, so none has to go"
	case r.Exact:
		r.Plan = graphswap.PlanSeparate
		r.reason = "an exact width needs both graphs of every block, so none may go"
	}
}

// checkDevice rejects a plan that a device cannot carry out, or only at a cost that
// the plan does not tell.
func (r *resolved) checkDevice(c backend.Capabilities) error {
	if r.Plan == graphswap.PlanResident && !c.SharesConstants {
		return fmt.Errorf("engine: %w: plan %s: %s stores the weights of each graph separately: take %s to load them twice",
			ErrOptions, r.Plan, c.Name, graphswap.PlanSeparate)
	}
	if start, used := planGraphs(r.Plan); r.Exact && start != used {
		return fmt.Errorf("engine: %w: %w", ErrOptions, noExactWidth(r.Plan))
	}
	return nil
}

// maxHeads bounds the widths of the head with drafts: the narrowest ones.
const maxHeads = 3

// headWidths returns the widths of the head's graphs, ascending. A pass that several
// requests share has a row of logits for each, and so has every draft.
//
// If the device does not share constants, each width is a copy of the model's largest
// matrix: automatic drafts then have no widths of their own.
func (r *resolved) headWidths(shared bool) (rows []int) {
	switch {
	case r.Exact: // another width may give other logits
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

// planGraphs returns what a plan has loaded of a block before the first prompt, and
// what it ever loads.
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

// knownConfig returns the configuration that fits into the device by the given costs.
// If they say nothing about memory, it is one graph of each block and, until the
// device refuses it, a spare slot.
func (r *resolved) knownConfig() graphswap.Config {
	one := graphswap.Config{Blocks: r.Blocks, PrefillRows: r.Rows[0], DecodeRows: r.partRows(), Residency: graphswap.OneGraph}
	if r.Costs == nil || r.Costs.Profile == nil || r.Costs.Profile.Memory.WindowGB == 0 {
		one.Spare = true
		return one
	}
	fits := r.Costs.Configs(&graphswap.Setting{
		Blocks: []int{one.Blocks}, PrefillRows: []int{one.PrefillRows}, DecodeRows: []int{one.DecodeRows}, Context: r.Context * r.Sequences,
	})
	if len(fits) > 0 {
		return fits[0]
	}
	return one // too large by these costs: the device decides
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

// partRows returns the rows of a part: the widest pass is cut into parts of the decode
// graph's rows if there is a plan, and not cut otherwise.
func (r *resolved) partRows() int {
	if r.Plan != "" {
		return r.Rows[len(r.Rows)-1]
	}
	return r.Rows[0]
}
