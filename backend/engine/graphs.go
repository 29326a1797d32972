package engine

import (
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// writeBlocks writes the blocks' graphs for a number of past slots as sets that
// bind the same memory: one for each block, the narrowest graph first.
func writeBlocks(m *model.Model, o Options, slots int) ([][]*backend.Graph, error) {
	var sets [][]*backend.Graph
	for block := range o.Blocks {
		first, end := o.blockRange(block, m.Config().Layers)
		var set []*backend.Graph
		for _, rows := range slices.Backward(o.Rows) {
			g, err := m.Block(model.Block{
				Name:  fmt.Sprintf("block%d_rows%d", block, rows),
				First: first, End: end, Rows: rows, Context: slots, Recipe: o.Recipe,
			})
			if err != nil {
				return nil, fmt.Errorf("engine: %w", err)
			}
			set = append(set, g)
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// writeHead writes the head's graphs, which no context changes.
func writeHead(m *model.Model, o Options, widths []int) ([]*backend.Graph, error) {
	var set []*backend.Graph
	for _, rows := range widths {
		g, err := m.Head(model.Head{Name: fmt.Sprintf("head_rows%d", rows), Rows: rows, Recipe: o.Recipe})
		if err != nil {
			return nil, fmt.Errorf("engine: %w", err)
		}
		set = append(set, g)
	}
	return set, nil
}
