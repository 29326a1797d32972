package embed

import (
	"slices"
	"sync"
)

// item is a text of a call of Embed that waits for a pass. After done is closed, the
// fields rows, err and pass are set and do not change.
type item struct {
	tokens []int32
	done   chan struct{}
	rows   [][]float32
	err    error
	pass   *pass
}

func (i *item) finished() bool {
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

// queue holds the texts of all calls that wait for a pass, the oldest first.
type queue struct {
	mu    sync.Mutex
	items []*item
}

func (q *queue) add(items []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, items...)
}

// remove removes items that wait. Items that a pass has taken are not in the queue.
func (q *queue) remove(items []*item) {
	gone := make(map[*item]bool, len(items))
	for _, it := range items {
		gone[it] = true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = slices.DeleteFunc(q.items, func(it *item) bool { return gone[it] })
}

// fixedRows is the fixed cost of a pass, expressed as the number of rows that cost as much.
// The constant workload.PassCost, by which package engine cuts prompts, equals fixedRows.
const fixedRows = 11

// take removes the texts of the next pass from the queue, and returns them with the width of
// the pass. The oldest text is always one of the returned texts. `widths` lists the graph
// widths in descending order, and the widest graph can hold any text.
func (q *queue) take(widths []int) (width int, texts []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	best := 0.0
	for _, w := range widths {
		list, rows := pack(q.items, w)
		if cost := float64(w+fixedRows) / float64(rows); rows > 0 && (len(texts) == 0 || cost < best) {
			best, width, texts = cost, w, list
		}
	}
	taken := make(map[*item]bool, len(texts))
	for _, it := range texts {
		taken[it] = true
	}
	q.items = slices.DeleteFunc(q.items, func(it *item) bool { return taken[it] })
	return width, texts
}

// pack returns the texts that a pass of the given width holds, the oldest first, and
// their number of rows. If the oldest text does not fit, pack returns none.
func pack(items []*item, width int) (list []*item, rows int) {
	for i, it := range items {
		n := len(it.tokens)
		if rows+n <= width {
			list, rows = append(list, it), rows+n
		} else if i == 0 {
			return nil, 0
		}
		if rows == width {
			break
		}
	}
	return list, rows
}
