package graphswap

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Cost computes the times and sizes of a model on a device. The simulator and the
// paced emulator both use it.
//
// Rows always include padding rows: a static graph takes the same time with one token
// as with all.
type Cost struct {
	Profile *Profile
	Name    string // of the model
	Model   Model
}

// Cost returns the costs of one of the profile's models.
func (p *Profile) Cost(model string) (*Cost, error) {
	m, ok := p.Models[model]
	if !ok {
		return nil, fmt.Errorf("graphswap: %w: %.80q: profile %s has %s", ErrModel, model, p.ID,
			strings.Join(slices.Sorted(maps.Keys(p.Models)), ", "))
	}
	return &Cost{Profile: p, Name: model, Model: m}, nil
}

// GenericCost returns the costs of a model that the profile does not list, from its
// sizes: each tile of rows streams the weights once, and each row adds its own time.
func (p *Profile) GenericCost(name string, m Model) *Cost {
	g := p.Compute.Generic
	m.DispatchMs = g.DispatchMs
	m.TileMs = float64(m.BodyBytes) / g.StreamGBps * 1e-6
	m.HeadTileMs = float64(m.HeadBytes) / g.StreamGBps * 1e-6
	// A row's time is split between body and head by their parameters.
	row := g.RowUs * float64(m.Layers) * float64(m.Hidden) * 1e-6
	m.RowMs = row * float64(m.BodyParams) / float64(max(m.BodyParams+m.HeadParams, 1))
	m.HeadRowMs = row - m.RowMs
	return &Cost{Profile: p, Name: name, Model: m}
}

// tiles returns the number of tiles that hold some rows.
func (c *Cost) tiles(rows int) float64 {
	t := c.Profile.Compute.TileRows
	return float64((rows + t - 1) / t)
}

// Body returns the time of all layers on graphs of a width, at a context in tokens,
// without the fixed cost of executes.
func (c *Cost) Body(rows int, context float64) float64 {
	p, m := &c.Profile.Compute, &c.Model
	row := m.RowMs * (1 - p.RowContextShare + p.RowContextShare*context/p.RowContextRef)
	return float64(m.Layers)*m.DispatchMs + c.tiles(rows)*m.TileMs + float64(rows)*row
}

// Head returns the head's time for a number of rows with logits.
func (c *Cost) Head(rows int) float64 {
	return c.tiles(rows)*c.Model.HeadTileMs + float64(rows)*c.Model.HeadRowMs
}

// Exec returns the time of one execute of a block with a share of the layers.
func (c *Cost) Exec(share float64, rows int, context float64) float64 {
	return share*c.Body(rows, context) + c.Profile.Compute.RPCMs
}

// Pass returns the time of a pass through all blocks, with logits for some rows.
func (c *Cost) Pass(rows int, context float64, blocks, logits int) float64 {
	return c.Body(rows, context) + c.Head(logits) + float64(blocks)*c.Profile.Compute.RPCMs
}

// Load returns the time to free the old graph and load a new one of the given size.
func (c *Cost) Load(bytes float64) float64 {
	l := &c.Profile.Load
	return l.UnloadMs + l.LatencyMs + bytes/l.BandwidthGBps*1e-6
}

// PeakGB returns the most memory that a plan holds: the base, one set of blocks, some
// extra blocks, the head, and the embedding table on the CPU.
func (c *Cost) PeakGB(extraBlocks float64) float64 {
	m := &c.Model
	return c.Profile.Memory.BaseMB*1e-3 + (float64(m.BodyBytes)*(1+extraBlocks)+float64(m.HeadBytes)+float64(m.EmbedBytes))*1e-9
}

// Shares returns the share of the layers in each block. As in the engine, blocks are
// contiguous and differ by at most one layer.
func (m *Model) Shares(blocks int) []float64 {
	shares := make([]float64, blocks)
	for b := range shares {
		first, end := b*m.Layers/blocks, (b+1)*m.Layers/blocks
		shares[b] = float64(end-first) / float64(m.Layers)
	}
	return shares
}

// Step returns the time of a decode step at a context: the passes that verify some
// rows, and a draft if the step is expected to yield more than one token.
func (c *Cost) Step(blocks, rows, verify int, context, accept float64) float64 {
	passes := (verify + rows - 1) / rows
	ms := float64(passes) * c.Pass(rows, context, blocks, rows)
	if accept > 1 {
		ms += c.Profile.CPU.DraftMs
	}
	return ms
}
