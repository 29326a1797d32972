package engine

import (
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// shareMark stands before a block's share of the model's layers in its graphs'
// names, block0_rows32_layers14of28: no graph knows the others, and who sees
// only one, such as a library that charges a phone's time, reads it there.
const shareMark = "_layers"

// blockSources describes the blocks' graphs for a number of past slots as sets
// that bind the same memory: one for each block, the narrowest graph first.
func blockSources(o Options, layers, slots int) [][]Source {
	sets := make([][]Source, o.Blocks)
	for block := range sets {
		first, end := o.blockRange(block, layers)
		for _, rows := range slices.Backward(o.Rows) {
			sets[block] = append(sets[block], Source{Block: &model.Block{
				Name:  fmt.Sprintf("block%d_rows%d%s%dof%d", block, rows, shareMark, end-first, layers),
				First: first, End: end, Rows: rows, Context: slots, Recipe: o.Recipe,
			}})
		}
	}
	return sets
}

// headSources describes the head's graphs, which no context changes.
func headSources(o Options, widths []int) []Source {
	var set []Source
	for _, rows := range widths {
		set = append(set, Source{Head: &model.Head{Name: fmt.Sprintf("head_rows%d", rows), Rows: rows, Top: o.Top, Recipe: o.Recipe}})
	}
	return set
}

// writeBlocks writes the graphs of [blockSources].
func writeBlocks(m *model.Model, o Options, slots int) ([][]*backend.Graph, error) {
	var sets [][]*backend.Graph
	for _, sources := range blockSources(o, m.Config().Layers, slots) {
		set, err := writeAll(m, sources)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// writeHead writes the graphs of [headSources].
func writeHead(m *model.Model, o Options, widths []int) ([]*backend.Graph, error) {
	return writeAll(m, headSources(o, widths))
}

func writeAll(m *model.Model, sources []Source) ([]*backend.Graph, error) {
	set := make([]*backend.Graph, len(sources))
	for i, s := range sources {
		var err error
		if set[i], err = s.write(m); err != nil {
			return nil, fmt.Errorf("engine: %w", err)
		}
	}
	return set, nil
}
