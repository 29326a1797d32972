package chain

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// formError is the largest error, as in [model.Shadow].Error, at which a form is good
// enough. scoreError is the limit for queries and keys in 8 bits: a softmax multiplies their
// errors, because scores are large.
const formError, scoreError = 1e-3, 1e-5

// enough reports whether a projection needs no form that is more expensive than f.
func enough(projection string, f model.Shadow) bool {
	if f.Bits == 8 && (strings.HasSuffix(projection, "_q") || strings.HasSuffix(projection, "_k")) {
		return f.Error <= scoreError
	}
	return f.Error <= formError
}

// formRows limits the number of kept rows on which the forms of a projection are compared.
const formRows = 256

// clips lists the ranges that are compared for an 8-bit input, as fractions of the range of the
// cold channels.
var clips = []float32{1, 0.85, 0.7, 0.55, 0.4, 0.3}

// hotShares lists the compared shares of hot channels: one channel of 32, of 16 or of 8.
var hotShares = []int{32, 16, 8}

// hotCounts returns the numbers of hot channels that are compared for an input, in ascending
// order. The numbers of hot channels are multiples of 32, because the matrix unit multiplies
// 32 channels together; in a small model they are multiples of 8.
func hotCounts(channels int) (counts []int) {
	unit := 32
	if channels < 256 {
		unit = 8
	}
	for _, share := range hotShares {
		if n := ((channels+share-1)/share + unit - 1) / unit * unit; 2*n <= channels {
			counts = append(counts, n)
		}
	}
	return slices.Compact(counts)
}

// product holds the weights of a projection and the results that it gave in the calibration texts.
type product struct {
	name    string
	columns int
	// weight is indexed (result, channel), and result is indexed (row, result).
	weight, result []float32
	// norms holds for each channel the sum of the squares of its weights.
	norms []float64
}

// forms chooses a form for each projection of the layer.
func (r *rounder) forms() (map[string]model.Shadow, error) {
	groups, order := make(map[string][]*product), []string{}
	for _, n := range r.nodes {
		x, matrix, y := r.graph.Tensors[n.Inputs[0]].Name, &r.graph.Tensors[n.Inputs[1]], r.graph.Tensors[n.Outputs[0]].Name
		if len(r.inputs[x].rows) == 0 { // an encoder's norm computes a mean with FullyConnected, but it is no projection
			continue
		}
		if groups[x] == nil {
			order = append(order, x)
		}
		p := &product{name: y, columns: matrix.Shape[0], result: r.results[y].rows}
		raw := make([]byte, matrix.SizeBytes())
		if err := matrix.Values.Fill(raw); err != nil {
			return nil, err
		}
		p.weight = make([]float32, matrix.Elements())
		p.norms = make([]float64, matrix.Shape[1])
		for i := range p.weight {
			p.weight[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
			p.norms[i%len(p.norms)] += float64(p.weight[i]) * float64(p.weight[i])
		}
		groups[x] = append(groups[x], p)
	}
	chosen := make(map[string]model.Shadow)
	for _, x := range order {
		g, err := newGroup(x, r.inputs[x], groups[x])
		if err != nil {
			return nil, err
		}
		g.choose(chosen)
	}
	return chosen, nil
}

// group chooses the forms of all projections that have the same input.
type group struct {
	width    int
	rows     []float32 // rows is indexed (row, channel)
	products []*product
	// low and high hold the smallest and the largest number of each channel. order lists the
	// channels, those with the largest magnitudes first.
	low, high []float32
	order     []int
}

func newGroup(name string, in *inputs, products []*product) (*group, error) {
	g := &group{width: in.width, rows: in.rows, products: products, low: make([]float32, in.width), high: make([]float32, in.width)}
	for i, v := range in.rows {
		c := i % in.width
		if v-v != 0 {
			return nil, fmt.Errorf("chain: %w: channel %d of %s is %v in the calibration text", ErrNotFinite, c, name, v)
		}
		g.low[c], g.high[c] = min(g.low[c], v), max(g.high[c], v)
	}
	for c := range in.width {
		g.order = append(g.order, c)
	}
	size := func(c int) float32 { return max(-g.low[c], g.high[c]) }
	slices.SortStableFunc(g.order, func(a, b int) int {
		switch {
		case size(a) > size(b):
			return -1
		case size(a) < size(b):
			return 1
		}
		return 0
	})
	return g, nil
}

// cold returns the range of the cold channels: all channels except the first `hot` channels
// of the list order.
func (g *group) cold(hot int) (r model.Range) {
	for _, c := range g.order[hot:] {
		r.Low, r.High = min(r.Low, g.low[c]), max(r.High, g.high[c])
	}
	return r
}

// sample returns the indices of the rows on which forms are compared.
func (g *group) sample() (rows []int) {
	all := len(g.rows) / g.width
	n := min(all, formRows)
	for i := range n {
		rows = append(rows, i*all/n)
	}
	return rows
}

// choose adds the form of each projection to the map chosen. Forms are compared in the order of
// their costs: first 8 bits with a growing number of hot channels, and then 16 bits. The comparison
// for a projection ends at the first form whose error is small enough. Each projection gets the
// form with the smallest error of all forms that were compared.
func (g *group) choose(chosen map[string]model.Shadow) {
	open, best := slices.Clone(g.products), make(map[string]model.Shadow)
	counts := append([]int{0}, hotCounts(g.width)...)
	for _, f := range slices.Concat(formsOf(8, counts), formsOf(16, counts[:min(2, len(counts))])) {
		if len(open) == 0 {
			break
		}
		found := g.measure(f, open)
		open = slices.DeleteFunc(open, func(p *product) bool {
			s := found[p.name]
			if b, known := best[p.name]; !known || s.Error < b.Error {
				best[p.name] = s
			}
			return enough(p.name, s)
		})
	}
	for _, p := range g.products {
		chosen[p.name] = g.withRanges(best[p.name], p)
	}
}

func activationType(bits int) backend.DataType {
	if bits == 16 {
		return backend.Ufixed16
	}
	return backend.Ufixed8
}

// form is a number of bits and a number of hot channels of a projection.
type form struct{ bits, hot int }

func formsOf(bits int, counts []int) (list []form) {
	for _, n := range counts {
		list = append(list, form{bits, n})
	}
	return list
}

// measure returns the form f for each of the products, with the form's error on a sample of the
// rows. measure clips the input to the range that gives the smallest error before the results
// are rounded.
func (g *group) measure(f form, products []*product) map[string]model.Shadow {
	rows := g.sample()
	fractions := clips
	if f.bits == 16 {
		fractions = clips[:1]
	}
	hot := g.order[:f.hot]
	var split splitting
	var before [][]float64
	least := math.Inf(1)
	for _, fraction := range fractions {
		s := g.split(f, hot, fraction)
		errors, sum := g.inputErrors(products, rows, s), 0.0
		for i, p := range products {
			sum += mean(errors[i], p.energies(rows))
		}
		if sum < least {
			split, before, least = s, errors, sum
		}
	}
	forms := make(map[string]model.Shadow)
	for i, p := range products {
		for j, e := range g.resultErrors(p, rows, split) {
			before[i][j] += e
		}
		forms[p.name] = model.Shadow{
			Bits: f.bits, Clip: split.clip, Rest: split.restRange, Hot: slices.Sorted(slices.Values(hot)),
			Error: float32(mean(before[i], p.energies(rows))),
		}
	}
	return forms
}

// energies returns for each row the sum of the squared results.
func (p *product) energies(rows []int) []float64 {
	sums := make([]float64, len(rows))
	for j, row := range rows {
		for _, y := range p.result[row*p.columns:][:p.columns] {
			sums[j] += float64(y) * float64(y)
		}
	}
	return sums
}

// mean returns the mean of the rows' errors, each divided by the row's energy. A row with
// an energy of zero counts as a row without error.
func mean(errors, energies []float64) (sum float64) {
	for j, e := range errors {
		if energies[j] > 0 {
			sum += e / energies[j]
		}
	}
	return sum / float64(len(errors))
}

// splitting describes how the input of a projection is split into the inputs of the first
// product and of the shadow.
type splitting struct {
	t               backend.DataType
	hot             []int
	isHot           []bool
	clip, restRange model.Range
	main, rest      rounding
}

// The method split returns the splitting of the input with the given hot channels. The argument
// fraction is the share of the cold channels' range that is not clipped.
func (g *group) split(f form, hot []int, fraction float32) splitting {
	s := splitting{t: activationType(f.bits), hot: hot, isHot: make([]bool, g.width), clip: g.cold(f.hot)}
	s.clip.Low, s.clip.High = fraction*s.clip.Low, fraction*s.clip.High
	s.main = newRounding(s.clip, s.t)
	for _, c := range hot {
		s.isHot[c] = true
		for at := c; at < len(g.rows); at += g.width {
			v := float64(g.rows[at])
			r := float32(v - s.main.round(v))
			s.restRange.Low, s.restRange.High = min(s.restRange.Low, r), max(s.restRange.High, r)
		}
	}
	s.rest = newRounding(s.restRange, backend.Ufixed16)
	return s
}

// rounding holds the scale and the limits with which numbers are rounded as a fixed-point tensor
// stores them.
type rounding struct{ scale, low, high float64 }

func newRounding(r model.Range, t backend.DataType) rounding {
	e := r.Encoding(t)
	low, high := e.Limits(t)
	return rounding{float64(e.Scale), low + float64(e.Offset), high + float64(e.Offset)}
}

func (r rounding) round(v float64) float64 {
	return r.scale * min(max(math.RoundToEven(v/r.scale), r.low), r.high)
}

// inputErrors returns for each product and row the expected squared error of the result that
// rounding the input causes. inputErrors adds the squares of the channels' effects on the
// result, because the errors of channels are independent of each other.
func (g *group) inputErrors(products []*product, rows []int, s splitting) [][]float64 {
	sums := make([][]float64, len(products))
	for i := range sums {
		sums[i] = make([]float64, len(rows))
	}
	split(len(rows), func(j int) {
		for c, v := range g.rows[rows[j]*g.width:][:g.width] {
			e := float64(v) - s.main.round(float64(v))
			if s.isHot[c] {
				e -= s.rest.round(e)
			}
			for i, p := range products {
				sums[i][j] += e * e * p.norms[c]
			}
		}
	})
	return sums
}

// resultErrors returns for each row the squared error of rounding the results of the first
// product and of the shadow.
func (g *group) resultErrors(p *product, rows []int, s splitting) []float64 {
	main, warm := g.terms(p, rows, s)
	sums := make([]float64, len(rows))
	for _, part := range []struct {
		values []float32
		t      backend.DataType
	}{{main, s.t}, {warm, backend.Ufixed16}} {
		r := newRounding(rangeOf(part.values), part.t)
		for i, v := range part.values {
			e := float64(v) - r.round(float64(v))
			sums[i/p.columns] += e * e
		}
	}
	return sums
}

// terms returns the results of the first product and of the shadow, indexed (row, result).
// The first product includes the bias.
func (g *group) terms(p *product, rows []int, s splitting) (main, warm []float32) {
	channels := len(p.weight) / p.columns
	columns := make([]float32, len(s.hot)*p.columns) // (hot channel, result)
	for i, c := range s.hot {
		for j := range p.columns {
			columns[i*p.columns+j] = p.weight[j*channels+c]
		}
	}
	main, warm = make([]float32, len(rows)*p.columns), make([]float32, len(rows)*p.columns)
	split(len(rows), func(j int) {
		x, sum := g.rows[rows[j]*g.width:][:g.width], warm[j*p.columns:][:p.columns]
		for i, c := range s.hot {
			rest := x[c] - float32(s.main.round(float64(x[c])))
			if rest == 0 {
				continue
			}
			for k, w := range columns[i*p.columns:][:p.columns] {
				sum[k] += rest * w
			}
		}
		for k, y := range p.result[rows[j]*p.columns:][:p.columns] {
			main[j*p.columns+k] = y - sum[k]
		}
	})
	return main, warm
}

// withRanges returns the form f with the ranges of the results of the first product and of
// the shadow, over all kept rows.
func (g *group) withRanges(f model.Shadow, p *product) model.Shadow {
	rows := make([]int, len(g.rows)/g.width)
	for i := range rows {
		rows[i] = i
	}
	s := splitting{hot: f.Hot, main: newRounding(f.Clip, activationType(f.Bits))}
	for part := range slices.Chunk(rows, formRows) {
		main, warm := g.terms(p, part, s)
		f.Main, f.Warm = joined(f.Main, rangeOf(main)), joined(f.Warm, rangeOf(warm))
	}
	return f
}

func rangeOf(values []float32) (r model.Range) {
	for _, v := range values {
		r.Low, r.High = min(r.Low, v), max(r.High, v)
	}
	return r
}

func joined(a, b model.Range) model.Range {
	return model.Range{Low: min(a.Low, b.Low), High: max(a.High, b.High)}
}
