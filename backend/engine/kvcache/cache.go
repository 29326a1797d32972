package kvcache

import (
	"errors"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine/arena"
)

// Keys and Values select one of a layer's two arrays.
const (
	Keys = iota
	Values
)

// Cache holds the keys and values of every layer. Create one with [New].
type Cache struct {
	layout    Layout
	layers    []layer
	buffers   []backend.Buffer
	sizeBytes int64
}

// layer is the memory of one layer's keys and values.
type layer struct {
	past, fresh [2]arena.Region
	// collected keeps the rows of all parts of a pass, [KVHeads, Rows, HeadDim].
	// No graph binds it. It is nil until a pass runs in parts.
	collected [2][]byte
	// width is the number of rows per head of the array that holds the last
	// pass's rows: collected if inParts, else fresh.
	width   int
	inParts bool
}

// New allocates a cache of zeros on dev, with one buffer for each block: a
// device may run each block in a session of its own, and a session maps only
// what its block binds. Block i ends before layer ends[i].
func New(dev backend.Device, l Layout, ends []int) (_ *Cache, err error) {
	c := &Cache{layout: l, layers: make([]layer, l.Layers)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	first := 0
	for _, end := range ends {
		var a arena.Arena
		for i := first; i < end; i++ {
			for kv := range 2 {
				a.Place(&c.layers[i].past[kv], l.pastBytes())
				a.Place(&c.layers[i].fresh[kv], l.newBytes())
			}
		}
		first = end
		b, err := a.Allocate(dev)
		if err != nil {
			return nil, err
		}
		c.buffers = append(c.buffers, b)
		c.sizeBytes += int64(a.SizeBytes())
	}
	return c, nil
}

// Close frees the buffers.
func (c *Cache) Close() error {
	var err error
	for _, b := range c.buffers {
		err = errors.Join(err, b.Close())
	}
	return err
}

// Layout returns the shape that the cache was made with.
func (c *Cache) Layout() Layout { return c.layout }

// SizeBytes returns the size of the buffers.
func (c *Cache) SizeBytes() int64 { return c.sizeBytes }

// Past returns the region of a layer's keys or values that graphs read.
func (c *Cache) Past(layer, kv int) *arena.Region { return &c.layers[layer].past[kv] }

// Fresh returns the region where graphs write the keys or values of their rows.
func (c *Cache) Fresh(layer, kv int) *arena.Region { return &c.layers[layer].fresh[kv] }

// Commit copies rows of the last pass, one after the other, to the slots of a
// sequence from a position on, in all layers.
func (c *Cache) Commit(sequence, position int, rows []int) {
	var runs []Run
	for i, row := range rows {
		if n := len(runs) - 1; n >= 0 && runs[n].Row+runs[n].N == row {
			runs[n].N++
			continue
		}
		runs = append(runs, Run{row, sequence, position + i, 1})
	}
	c.Store(0, len(c.layers), runs)
}

// Clear makes the slots of a sequence's positions [from, to) zero in all layers.
func (c *Cache) Clear(sequence, from, to int) {
	c.ClearSlots(0, len(c.layers), []Run{{Sequence: sequence, Position: from, N: to - from}})
}

// Read appends the keys and values of a sequence's first n tokens to dst: per
// layer the keys and then the values, each [KVHeads, n, HeadDim]. The result
// depends neither on graph widths, blocks and context nor on other sequences.
func (c *Cache) Read(dst []byte, sequence, n int) []byte {
	for i := range c.layers {
		for _, r := range c.layers[i].past {
			for head := range c.layout.KVHeads {
				from, to := c.layout.span(head, c.layout.Slot(sequence, 0), n)
				dst = append(dst, r.All()[from:to]...)
			}
		}
	}
	return dst
}

// CopyFrom copies the first lengths[i] tokens of each sequence i from a cache
// that differs in Context only. The slots after them must be zero already.
func (c *Cache) CopyFrom(old *Cache, lengths []int) {
	for i := range c.layers {
		for kv := range 2 {
			dst, src := c.layers[i].past[kv].All(), old.layers[i].past[kv].All()
			for sequence, n := range lengths {
				for head := range c.layout.KVHeads {
					to, _ := c.layout.span(head, c.layout.Slot(sequence, 0), n)
					from, end := old.layout.span(head, old.layout.Slot(sequence, 0), n)
					copy(dst[to:], src[from:end])
				}
			}
		}
	}
}

// DirtyBytes counts bytes that are not zero in slots after the first lengths[i]
// tokens of each sequence i. It is for tests.
func (c *Cache) DirtyBytes(lengths []int) (n int) {
	for i := range c.layers {
		for _, r := range c.layers[i].past {
			for sequence, length := range lengths {
				for head := range c.layout.KVHeads {
					from, to := c.layout.span(head, c.layout.Slot(sequence, length), c.layout.Context-length)
					for _, b := range r.All()[from:to] {
						n += int(min(b, 1))
					}
				}
			}
		}
	}
	return n
}
