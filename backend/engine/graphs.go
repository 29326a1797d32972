package engine

import (
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// writeGraphs writes what an engine runs as sets that bind the same memory: for
// each block its graphs, the narrowest first, and at last the head alone.
func writeGraphs(m *model.Model, o Options) ([][]*backend.Graph, error) {
	var sets [][]*backend.Graph
	for block := range o.Blocks {
		first, end := o.blockRange(block, m.Config().Layers)
		var set []*backend.Graph
		for _, rows := range slices.Backward(o.Rows) {
			g, err := m.Block(model.Block{
				Name:  fmt.Sprintf("block%d_rows%d", block, rows),
				First: first, End: end, Rows: rows, Context: o.slots(), Recipe: o.Recipe,
			})
			if err != nil {
				return nil, fmt.Errorf("engine: %w", err)
			}
			set = append(set, g)
		}
		sets = append(sets, set)
	}
	g, err := m.Head(model.Head{Name: fmt.Sprintf("head_rows%d", o.HeadRows), Rows: o.HeadRows, Recipe: o.Recipe})
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return append(sets, []*backend.Graph{g}), nil
}
