package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// head is the way from hidden states to logits, in one width or several.
//
// Its graphs write whole rows of logits and, beside them, the best of each row.
// The host reads the best; what it then does not need of the row stays where the
// device has written it. A graph without the row would have to run again for it,
// and on a device that does not share constants be a second copy of the model's
// largest matrix.
type head struct {
	widths []*step // ascending, as rows are
	ports  []map[string]*region
	rows   []int
	images []*image
	memory *headMemory
	// held are the rows of the last pass that stand in memory.
	held []int
}

func (h *head) load(ctx context.Context, l *loader, graphs []*backend.Graph) error {
	loaded, images, err := l.load(ctx, graphs)
	h.images = images
	if err != nil {
		return err
	}
	m := h.memory
	h.ports = []map[string]*region{{
		model.PortX: &m.x, model.PortLogits: &m.logits,
		model.PortTop: &m.top, model.PortTopIndices: &m.indices, model.PortShare: &m.share,
	}}
	h.widths = make([]*step, len(loaded))
	return h.bind(loaded)
}

func (h *head) bind(loaded []*loaded) (err error) {
	for i := range loaded {
		if h.widths[i], err = bindStep(loaded[i], h.ports); err != nil {
			return err
		}
	}
	return nil
}

func (h *head) close() error { return errors.Join(closeImages(h.images), h.memory.close()) }

// fitting is the narrowest width that holds n rows, or the widest.
func (h *head) fitting(n int) (*step, int) {
	for i, rows := range h.rows {
		if rows >= n || i == len(h.rows)-1 {
			return h.widths[i], rows
		}
	}
	panic(fmt.Sprintf("engine: a head without graphs for %d rows", n))
}

// headMemory is what the head binds.
type headMemory struct {
	buffer              backend.Buffer
	x, logits           region
	top, indices, share region
}

func newHeadMemory(dev backend.Device, c model.Config, o Options) (*headMemory, error) {
	var a arena
	m := &headMemory{}
	widths, element := o.headRows(), o.Recipe.Activations.Size()
	rows := widths[len(widths)-1]
	a.place(&m.x, rows*c.Hidden*element)
	a.place(&m.logits, rows*c.Vocab*element)
	if o.Top > 0 {
		a.place(&m.top, rows*o.Top*element)
		a.place(&m.indices, rows*o.Top*backend.Uint32.Size())
		a.place(&m.share, rows*element)
	}
	var err error
	m.buffer, err = a.allocate(dev)
	return m, err
}

func (m *headMemory) sizeBytes() int64 { return int64(len(m.buffer.Bytes())) }

func (m *headMemory) close() error {
	if m.buffer == nil {
		return nil
	}
	return m.buffer.Close()
}

// runHead computes what the rows ask for, as many at a time as the head has
// rows.
func (e *Engine) runHead(ctx context.Context, pl *plan, r *Result) error {
	var wanted []int
	tops, wholes := 0, 0
	for i, row := range pl.rows {
		top, whole := e.asks(row)
		if top || whole {
			wanted = append(wanted, i)
		}
		if top {
			tops++
		}
		if whole {
			wholes++
		}
	}
	e.logits = slices.Grow(e.logits[:0], wholes*e.config.Vocab)[:0]
	e.tops.reserve(tops * e.options.Top)
	for len(wanted) > 0 {
		part, err := e.runHeadOnce(ctx, pl, wanted, r)
		if err != nil {
			return err
		}
		for at, i := range part {
			if err := e.readHead(at, pl.rows[i], r, i); err != nil {
				return err
			}
		}
		wanted = wanted[len(part):]
	}
	return nil
}

// asks tells what of the head's outputs a row asks for.
func (e *Engine) asks(row Row) (top, whole bool) {
	none := e.options.Top == 0
	return row.Top && !none, row.Logits || row.Top && none
}

// readHead takes over what the head has written at a place for row i of a pass.
func (e *Engine) readHead(at int, row Row, r *Result, i int) (err error) {
	top, whole := e.asks(row)
	if whole {
		n, vocab := len(e.logits), e.config.Vocab
		e.logits = e.logits[:n+vocab]
		r.Logits[i] = e.logits[n : n+vocab : n+vocab]
		if err := e.readLogits(r.Logits[i], at); err != nil {
			return err
		}
	}
	if top {
		r.Top[i], err = e.readTop(at)
	}
	return err
}

// runHeadOnce runs the head for the first of some rows, which it returns.
func (e *Engine) runHeadOnce(ctx context.Context, pl *plan, wanted []int, r *Result) ([]int, error) {
	size := e.config.Hidden * e.options.Recipe.Activations.Size()
	from := pl.hidden.bytes(len(pl.rows) * size)
	s, rows := e.head.fitting(len(wanted))
	part := wanted[:min(rows, len(wanted))]
	to := e.head.memory.x.bytes(rows * size)
	for j, row := range part {
		copy(to[j*size:(j+1)*size], from[row*size:])
	}
	clear(to[len(part)*size:])
	e.head.held = e.head.held[:0]
	began := time.Now()
	if err := e.run(ctx, s, 0, r); err != nil {
		return nil, err
	}
	e.habitsMu.Lock()
	e.habits.head(rows, time.Since(began))
	e.habitsMu.Unlock()
	e.head.held = append(e.head.held, part...)
	return part, nil
}

// wholeRow is the logits of a row of the last pass, valid until the next call.
// It runs the head again if other rows have taken the row's place.
func (e *Engine) wholeRow(ctx context.Context, row int, r *Result) ([]float32, error) {
	at := slices.Index(e.head.held, row)
	if at < 0 {
		if _, err := e.runHeadOnce(ctx, e.last, []int{row}, r); err != nil {
			return nil, err
		}
		at = 0
	}
	vocab := e.config.Vocab
	e.row = slices.Grow(e.row[:0], vocab)[:vocab]
	return e.row, e.readLogits(e.row, at)
}

// readLogits decodes row at of what the head has written.
func (e *Engine) readLogits(dst []float32, at int) error {
	t := e.options.Recipe.Activations
	size := len(dst) * t.Size()
	if err := decodeFloats(dst, e.head.memory.logits.bytes((at + 1) * size)[at*size:], t); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// tops is the memory of what a pass's rows were given as their best.
type tops struct {
	ids    []int32
	logits []float32
}

func (t *tops) reserve(n int) {
	t.ids, t.logits = slices.Grow(t.ids[:0], n)[:0], slices.Grow(t.logits[:0], n)[:0]
}

func (t *tops) take(k int) sampler.Top {
	n := len(t.ids)
	t.ids, t.logits = t.ids[:n+k], t.logits[:n+k]
	return sampler.Top{IDs: t.ids[n : n+k : n+k], Logits: t.logits[n : n+k : n+k]}
}

// readTop decodes the best of row at and puts equals in order of their ids,
// which not every library does. A token that there is not is an error.
func (e *Engine) readTop(at int) (sampler.Top, error) {
	m, t, k := e.head.memory, e.options.Recipe.Activations, e.options.Top
	top := e.tops.take(k)
	top.Vocab = e.config.Vocab
	size := k * t.Size()
	if err := decodeFloats(top.Logits, m.top.bytes((at + 1) * size)[at*size:], t); err != nil {
		return top, fmt.Errorf("engine: %w", err)
	}
	var share [1]float32
	if err := decodeFloats(share[:], m.share.bytes((at + 1) * t.Size())[at*t.Size():], t); err != nil {
		return top, fmt.Errorf("engine: %w", err)
	}
	top.Share = share[0]
	indices := m.indices.bytes((at + 1) * 4 * k)[at*4*k:]
	for i := range top.IDs {
		id := binary.LittleEndian.Uint32(indices[4*i:])
		if id >= uint32(e.config.Vocab) {
			return top, fmt.Errorf("engine: the head names token %d of %d", id, e.config.Vocab)
		}
		top.IDs[i] = int32(id)
		for j := i; j > 0 && top.Logits[j-1] == top.Logits[j] && top.IDs[j-1] > top.IDs[j]; j-- {
			top.IDs[j-1], top.IDs[j] = top.IDs[j], top.IDs[j-1]
		}
	}
	return top, nil
}
