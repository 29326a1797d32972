package graphswap

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Cost is what a model takes on a device. It is the one source of durations:
// simulated plans are made of them, and the paced emulator charges them.
//
// Rows are always rows of the graph, padding included: a static graph runs as
// long with one token in it as with all.
type Cost struct {
	Profile *Profile
	Name    string // the model's
	Model   Model
}

// Cost binds a model of the profile.
func (p *Profile) Cost(model string) (*Cost, error) {
	m, ok := p.Models[model]
	if !ok {
		return nil, fmt.Errorf("graphswap: %w: %.80q is not among %s of %s", ErrModel, model,
			strings.Join(slices.Sorted(maps.Keys(p.Models)), ", "), p.ID)
	}
	return &Cost{Profile: p, Name: model, Model: m}, nil
}

// GenericCost binds a model that the profile does not list, by its sizes: the
// weights are streamed once per tile of rows, and each row has its time.
func (p *Profile) GenericCost(name string, m Model) *Cost {
	g := p.Compute.Generic
	m.DispatchMs = g.DispatchMs
	m.TileMs = float64(m.BodyBytes) / g.StreamGBps * 1e-6
	m.HeadTileMs = float64(m.HeadBytes) / g.StreamGBps * 1e-6
	// A row's time is that of body and head together: by their parameters.
	row := g.RowUs * float64(m.Layers) * float64(m.Hidden) * 1e-6
	m.RowMs = row * float64(m.BodyParams) / float64(max(m.BodyParams+m.HeadParams, 1))
	m.HeadRowMs = row - m.RowMs
	return &Cost{Profile: p, Name: name, Model: m}
}

func (c *Cost) tiles(rows int) float64 {
	t := c.Profile.Compute.TileRows
	return float64((rows + t - 1) / t)
}

// Body is one pass of all layers over a graph of so many rows, at a context of
// so many tokens, without the fixed cost of executes.
func (c *Cost) Body(rows int, context float64) float64 {
	p, m := &c.Profile.Compute, &c.Model
	row := m.RowMs * (1 - p.RowContextShare + p.RowContextShare*context/p.RowContextRef)
	return float64(m.Layers)*m.DispatchMs + c.tiles(rows)*m.TileMs + float64(rows)*row
}

// Head is the head's part of an execute for the rows that need logits.
func (c *Cost) Head(rows int) float64 {
	return c.tiles(rows)*c.Model.HeadTileMs + float64(rows)*c.Model.HeadRowMs
}

// Exec is one execute of a block that holds a share of the layers.
func (c *Cost) Exec(share float64, rows int, context float64) float64 {
	return share*c.Body(rows, context) + c.Profile.Compute.RPCMs
}

// Pass is one pass through all blocks with logits for so many rows.
func (c *Cost) Pass(rows int, context float64, blocks, logits int) float64 {
	return c.Body(rows, context) + c.Head(logits) + float64(blocks)*c.Profile.Compute.RPCMs
}

// Load is the creation of a context from so many bytes, the release of what
// was there included.
func (c *Cost) Load(bytes float64) float64 {
	l := &c.Profile.Load
	return l.UnloadMs + l.LatencyMs + bytes/l.BandwidthGBps*1e-6
}

// PeakGB is the most memory that a plan holds: the base, one set of blocks, so
// many blocks beside it, the head, and the table of embeddings on the CPU.
func (c *Cost) PeakGB(extraBlocks float64) float64 {
	m := &c.Model
	return c.Profile.Memory.BaseMB*1e-3 + (float64(m.BodyBytes)*(1+extraBlocks)+float64(m.HeadBytes)+float64(m.EmbedBytes))*1e-9
}

// Shares cuts the layers into blocks as the engine does: contiguous, sizes
// differing by at most one layer.
func (m *Model) Shares(blocks int) []float64 {
	shares := make([]float64, blocks)
	for b := range shares {
		first, end := b*m.Layers/blocks, (b+1)*m.Layers/blocks
		shares[b] = float64(end-first) / float64(m.Layers)
	}
	return shares
}

// Step is one decode step at a context: a draft, if more than one token is
// expected of it, and a pass through as many executes as hold the wanted rows.
func (c *Cost) Step(blocks, rows, verify int, context, accept float64) float64 {
	passes := (verify + rows - 1) / rows
	ms := float64(passes) * c.Pass(rows, context, blocks, rows)
	if accept > 1 {
		ms += c.Profile.CPU.DraftMs
	}
	return ms
}
