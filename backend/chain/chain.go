package chain

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// ErrText is returned when a text is empty or longer than the options allow.
var ErrText = errors.New("text does not fit")

// Options tunes a Chain. The zero value runs the first recipe on 128 rows.
type Options struct {
	// Recipe is the precision. Zero means the first of [model.Recipes].
	Recipe model.Recipe
	// Rows is the width of the graphs. Zero means 128.
	Rows int
	// Context is the longest text. Zero means 512.
	Context int
	// Observe asks for inputs and results of projections among the outputs.
	Observe bool
	// Round, when not nil, is given by [Calibrate] the layers' matrices that recipes
	// hold in integers of rows, rounded so that errors make up for each other in its
	// texts ([quant.Compensator]). The recipe must be f32.
	Round Keep
	// Block, when not zero, rounds them to 4 bits times a multiple of each so many
	// inputs ([quant.FitMultiples]), else to 8 bits.
	Block int
	// Processor, when set, is the time that processors have spent on this process.
	Processor func() time.Duration
}

// Chain is texts on their way through a model.
type Chain struct {
	dev     backend.Device
	model   *model.Model
	options Options
	texts   [][]int32
	hidden  [][]byte // of each text: (token, hidden)
	// Sizes are the bytes of the images compiled so far, and what their programs
	// took on the device.
	Sizes Sizes
	// Spent is what processors have spent on running graphs, where
	// [Options].Processor is set.
	Spent time.Duration
}

// Sizes counts what images and programs took, and beside that the graphs' constants
// as numbers of their recipe, packed and without scales: a device may keep them
// otherwise.
type Sizes struct{ Image, Program, Weights int64 }

// New looks up the embeddings of texts, which the caller does not change while
// the chain is used.
func New(dev backend.Device, m *model.Model, texts [][]int32, o Options) (*Chain, error) {
	if o.Recipe == (model.Recipe{}) {
		o.Recipe = model.Recipes[0]
	}
	if o.Rows == 0 {
		o.Rows = 128
	}
	if o.Context == 0 {
		o.Context = 512
	}
	c := &Chain{dev: dev, model: m, options: o, texts: texts}
	row := m.Config().Hidden * o.Recipe.Activations.Size()
	for i, text := range texts {
		if len(text) == 0 || len(text) > o.Context {
			return nil, fmt.Errorf("chain: text %d: %w: %d tokens, 1 to %d wanted", i, ErrText, len(text), o.Context)
		}
		x := make([]byte, len(text)*row)
		if err := m.Embed(x, text, o.Recipe); err != nil {
			return nil, fmt.Errorf("chain: text %d: %w", i, err)
		}
		c.hidden = append(c.hidden, x)
	}
	return c, nil
}

// slots is the past that the graphs have.
func (c *Chain) slots() int { return max(1, c.options.Context-1) }

// Hidden are the hidden states of a text behind the last layer that ran, row by
// row.
func (c *Chain) Hidden(text int) []float32 {
	return floats(c.hidden[text], c.options.Recipe.Activations)
}

// See is shown an output of a graph: the rows of one pass over one text.
type See func(tensor string, values []float32)

// Layer sends all texts through layer i, which must be the next. see, when not
// nil, is shown the graph's outputs that are floats.
func (c *Chain) Layer(ctx context.Context, i int, see See) error {
	g, err := c.graph(i)
	if err != nil {
		return err
	}
	r, err := c.open(ctx, g)
	if err != nil {
		return fmt.Errorf("chain: layer %d: %w", i, err)
	}
	for text := range c.texts {
		if err = c.layerText(ctx, r, i, text, see); err != nil {
			err = fmt.Errorf("chain: layer %d, text %d: %w", i, text, err)
			break
		}
	}
	return errors.Join(err, r.close())
}

// graph is that of layer i.
func (c *Chain) graph(i int) (*backend.Graph, error) {
	o := c.options
	return c.model.Block(model.Block{
		Name: fmt.Sprintf("layer%d", i), First: i, End: i + 1, Rows: o.Rows, Context: c.slots(), Recipe: o.Recipe, Observe: o.Observe,
	})
}

// layerText sends one text through a layer.
func (c *Chain) layerText(ctx context.Context, r *runner, layer, text int, see See) error {
	o, config := c.options, c.model.Config()
	element := o.Recipe.Activations.Size()
	row := config.Hidden * element
	for _, port := range []string{model.PastKey(layer), model.PastValue(layer)} {
		clear(r.bytes(port))
	}
	x := c.hidden[text]
	for at := 0; at < len(c.texts[text]); at += o.Rows {
		valid := min(o.Rows, len(c.texts[text])-at)
		clear(r.bytes(model.PortX)[copy(r.bytes(model.PortX), x[at*row:(at+valid)*row]):])
		c.fillViews(r, at, valid)
		if err := c.run(ctx, r); err != nil {
			return err
		}
		copy(x[at*row:(at+valid)*row], r.bytes(model.PortY))
		for _, kv := range [][2]string{{model.NewKey(layer), model.PastKey(layer)}, {model.NewValue(layer), model.PastValue(layer)}} {
			c.commit(r.bytes(kv[1]), r.bytes(kv[0]), at, valid)
		}
		if see == nil {
			continue
		}
		for _, p := range r.signature.Outputs {
			if p.Type.Float() {
				see(p.Name, validRows(p, r.bytes(p.Name), valid, o.Rows))
			}
		}
	}
	return nil
}

// commit stores new keys or values, (head, row), behind the first at past ones,
// (head, slot).
func (c *Chain) commit(past, fresh []byte, at, valid int) {
	config, rows, slots := c.model.Config(), c.options.Rows, c.slots()
	size := config.HeadDim * c.options.Recipe.Cache.Size()
	for head := range config.KVHeads {
		n := min(valid, slots-at) // the last row of the longest text is nobody's past
		copy(past[(head*slots+at)*size:][:n*size], fresh[head*rows*size:])
	}
}

// fillViews writes angles and masks of the rows from position at on.
func (c *Chain) fillViews(r *runner, at, valid int) {
	o, config, slots := c.options, c.model.Config(), c.slots()
	positions := make([]int32, o.Rows)
	for i := range valid {
		positions[i] = int32(at + i)
	}
	groups, t := config.Heads/config.KVHeads, o.Recipe.Activations
	for _, v := range c.model.Views(o.Context) {
		if !r.has(v.Mask) { // of other layers
			continue
		}
		v.Rope(r.bytes(v.Cos), r.bytes(v.Sin), positions, o.Recipe)
		mask := r.bytes(v.Mask)
		for row := range o.Rows {
			for slot := range slots + o.Rows {
				seen := slot-slots == row // padding sees itself
				if position := slot; row < valid && !seen {
					if slot >= slots {
						position = at + slot - slots
					}
					seen = (slot < at || slot >= slots) && position <= at+row && position >= v.Oldest(int32(at+row))
				}
				value := float32(model.MaskValue)
				if seen {
					value = 0
				}
				for g := range groups {
					putFloat(mask, ((g*o.Rows)+row)*(slots+o.Rows)+slot, value, t)
				}
			}
		}
	}
}

// validRows are the elements of the valid ones of a pass's rows. Rows are a
// tensor's dimension before the last.
func validRows(p backend.Port, b []byte, valid, rows int) []float32 {
	width := p.Shape[len(p.Shape)-1]
	all := floats(b, p.Type)
	var kept []float32
	for at := 0; at < len(all); at += rows * width {
		kept = append(kept, all[at:at+valid*width]...)
	}
	return kept
}

func floats(b []byte, t backend.DataType) []float32 {
	values := make([]float32, len(b)/t.Size())
	for i := range values {
		if t == backend.Float16 {
			values[i] = quant.F16ToF32(binary.LittleEndian.Uint16(b[2*i:]))
		} else {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	}
	return values
}

func putFloat(dst []byte, i int, v float32, t backend.DataType) {
	if t == backend.Float16 {
		binary.LittleEndian.PutUint16(dst[2*i:], quant.F32ToF16(v))
		return
	}
	binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
}

// open compiles and loads a graph and allocates its ports.
func (c *Chain) open(ctx context.Context, g *backend.Graph) (_ *runner, err error) {
	r := &runner{graph: g.Name, signature: g.Signature(), buffers: make(map[string]backend.Buffer)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	var image bytes.Buffer
	if err := c.dev.Compile(ctx, &image, g); err != nil {
		return nil, err
	}
	if r.program, err = c.dev.Load(ctx, backend.Image{Bytes: image.Bytes()}); err != nil {
		return nil, err
	}
	for i := range g.Tensors {
		if t := &g.Tensors[i]; t.Kind == backend.Constant {
			c.Sizes.Weights += int64(t.PackedBytes())
		}
	}
	c.Sizes.Image += int64(image.Len())
	c.Sizes.Program += r.program.SizeBytes()
	if r.signature, err = r.program.Signature(g.Name); err != nil {
		return nil, err
	}
	for _, ports := range [][]backend.Port{r.signature.Inputs, r.signature.Outputs} {
		for _, p := range ports {
			b, err := c.dev.NewBuffer(p.SizeBytes())
			if err != nil {
				return nil, err
			}
			r.buffers[p.Name] = b
			r.bindings = append(r.bindings, backend.Binding{Buffer: b})
		}
	}
	return r, nil
}

// run runs a graph and counts what it takes.
func (c *Chain) run(ctx context.Context, r *runner) error {
	if c.options.Processor == nil {
		return r.run(ctx)
	}
	before := c.options.Processor()
	err := r.run(ctx)
	c.Spent += c.options.Processor() - before
	return err
}

// runner is a loaded graph with memory for its ports.
type runner struct {
	graph     string
	program   backend.Program
	signature backend.Signature
	buffers   map[string]backend.Buffer
	bindings  []backend.Binding
}

func (r *runner) has(port string) bool { return r.buffers[port] != nil }

func (r *runner) bytes(port string) []byte { return r.buffers[port].Bytes() }

func (r *runner) run(ctx context.Context) error { return r.program.Run(ctx, r.graph, r.bindings) }

func (r *runner) close() error {
	var errs []error
	if r.program != nil {
		errs = append(errs, r.program.Close())
	}
	for _, b := range r.buffers {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}
