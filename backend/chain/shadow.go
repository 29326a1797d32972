package chain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// FormError is the default of [Options].FormError.
const FormError = 6e-4

// scoreShare and rowShare derive two limits from [Options].FormError. A form of 8 bits for queries
// and keys may have an error of scoreShare times the limit, because a softmax multiplies the
// errors of scores. A single row may have an error of rowShare times the limit, because the mean
// over the rows hides the outliers of the first token of a text.
const scoreShare, rowShare = 0.01, 16

// enough reports whether a projection needs no form that is more expensive than f. The argument
// limit is the largest error of a form that is good enough.
func enough(projection string, f model.Shadow, limit float64) bool {
	if f.Bits == 8 && (strings.HasSuffix(projection, "_q") || strings.HasSuffix(projection, "_k")) {
		limit *= scoreShare
	}
	return float64(f.Error) <= limit && float64(f.Worst) <= rowShare*limit
}

// formRows limits the number of evenly spaced rows on which the forms of a projection are
// compared. outlierRows is the number of rows with the largest numbers, which are compared too.
const formRows, outlierRows = 256, 16

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
	// bias holds the number that is added to each result, or is nil.
	bias []float32
	// norms holds for each channel the sum of the squares of its weights.
	norms []float64
}

// forms chooses a form for each projection of the layer. The argument limit is the largest error
// of a form that is good enough.
func (r *rounder) forms(limit float64) (map[string]model.Shadow, error) {
	chosen := make(map[string]model.Shadow)
	return chosen, r.each(func(g *group) { g.choose(limit, chosen) })
}

// each calls the function use for each input of projections, in the graph's order.
func (r *rounder) each(use func(g *group)) error {
	groups, order := make(map[string][]*product), []string{}
	for _, n := range r.nodes {
		x, matrix, y := r.graph.Tensors[n.Inputs[0]].Name, &r.graph.Tensors[n.Inputs[1]], r.graph.Tensors[n.Outputs[0]].Name
		if len(r.inputs[x].rows) == 0 { // an encoder's norm computes a mean with FullyConnected, but it is no projection
			continue
		}
		if groups[x] == nil {
			order = append(order, x)
		}
		p := &product{name: y, columns: matrix.Shape[0], result: r.results[y].rows, norms: make([]float64, matrix.Shape[1])}
		var err error
		if p.weight, err = constant(matrix); err == nil && len(n.Inputs) == 3 {
			p.bias, err = constant(&r.graph.Tensors[n.Inputs[2]])
		}
		if err != nil {
			return err
		}
		for i, v := range p.weight {
			p.norms[i%len(p.norms)] += float64(v) * float64(v)
		}
		groups[x] = append(groups[x], p)
	}
	for _, x := range order {
		g, err := newGroup(x, r.inputs[x], groups[x])
		if err != nil {
			return err
		}
		use(g)
	}
	return nil
}

// constant returns the elements of a float32 constant.
func constant(t *backend.Tensor) ([]float32, error) {
	raw := make([]byte, t.SizeBytes())
	if err := t.Values.Fill(raw); err != nil {
		return nil, err
	}
	return floats(raw, t.Type), nil
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
	slices.SortStableFunc(g.order, func(a, b int) int { return cmp.Compare(g.size(b), g.size(a)) })
	return g, nil
}

// size returns the largest magnitude of a channel.
func (g *group) size(channel int) float32 { return max(-g.low[channel], g.high[channel]) }

// cold returns the range of the cold channels: all channels except the first `hot` channels
// of the list order.
func (g *group) cold(hot int) (r model.Range) {
	for _, c := range g.order[hot:] {
		r.Low, r.High = min(r.Low, g.low[c]), max(r.High, g.high[c])
	}
	return r
}

// sample returns the indices of the rows on which forms are compared: evenly spaced rows, and then
// the rows with the largest numbers.
func (g *group) sample() (spaced, all []int) {
	count := len(g.rows) / g.width
	n := min(count, formRows)
	for i := range n {
		spaced = append(spaced, i*count/n)
	}
	sizes, order := make([]float32, count), make([]int, count)
	for i := range order {
		row := g.rows[i*g.width:][:g.width]
		order[i], sizes[i] = i, max(slices.Max(row), -slices.Min(row))
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	return spaced, slices.Concat(spaced, order[:min(count, outlierRows)])
}

// outlyingRatio is the ratio of a channel's largest magnitude to that of the median channel, above
// which the channel is outlying.
const outlyingRatio = 8

// outlying returns the number of outlying channels. If only they are hot, weights that are small
// because their inputs are large do not share a scale with the weights of other channels.
func (g *group) outlying() (n int) {
	median := g.size(g.order[len(g.order)/2])
	for n < len(g.order) && g.size(g.order[n]) > outlyingRatio*median {
		n++
	}
	return n
}

// choose adds the form of each projection to the map chosen. Forms are compared in the order of
// their costs: first 8 bits with a growing number of hot channels, and then 16 bits with few. The comparison
// for a projection ends at the first form whose error is small enough. Each projection gets the
// form with the smallest error of all forms that were compared for the projection.
func (g *group) choose(limit float64, chosen map[string]model.Shadow) {
	open, best := slices.Clone(g.products), make(map[string]model.Shadow)
	few, counts := []int{0}, hotCounts(g.width)
	if n := g.outlying(); n > 0 && len(counts) > 0 && n < counts[0] {
		few = append(few, n)
	}
	if len(counts) > 0 {
		few = append(few, counts[0])
		counts = counts[1:]
	}
	for _, f := range slices.Concat(formsOf(8, few), formsOf(8, counts), formsOf(16, few)) {
		if len(open) == 0 {
			break
		}
		found := g.measure(f, open)
		open = slices.DeleteFunc(open, func(p *product) bool {
			s := found[p.name]
			if b, known := best[p.name]; !known || s.Error < b.Error {
				best[p.name] = s
			}
			return enough(p.name, s, limit)
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

// measure returns the form f for each of the products, with the form's errors on a sample of the
// rows. measure clips the input to the range that gives the smallest error before the results
// are rounded.
func (g *group) measure(f form, products []*product) map[string]model.Shadow {
	spaced, rows := g.sample()
	fractions := clips
	if f.bits == 16 {
		fractions = clips[:1]
	}
	hot := g.order[:f.hot]
	var split splitting
	var sums [][]float64
	least := math.Inf(1)
	for _, fraction := range fractions {
		s := g.split(f, hot, fraction)
		errors, sum := g.inputErrors(products, rows, s), 0.0
		for i, p := range products {
			sum += mean(g.relative(p, rows, errors[i])[:len(spaced)])
		}
		if sum < least {
			split, sums, least = s, errors, sum
		}
	}
	forms := make(map[string]model.Shadow)
	for i, p := range products {
		results, weights := g.resultErrors(p, rows, split), g.weightErrors(p, rows, split)
		for j := range sums[i] {
			sums[i][j] += results[j] + weights[j]
		}
		errors := g.relative(p, rows, sums[i])
		forms[p.name] = model.Shadow{
			Bits: f.bits, Clip: split.clip, Rest: split.restRange, Hot: slices.Sorted(slices.Values(hot)),
			Error: float32(mean(errors[:len(spaced)])), Worst: float32(slices.Max(errors)),
		}
	}
	return forms
}

// relative returns the rows' errors, each divided by the sum of the row's squared results. A row of
// zeros counts as a row without error.
func (g *group) relative(p *product, rows []int, errors []float64) []float64 {
	shares := make([]float64, len(rows))
	for j, row := range rows {
		energy := 0.0
		for _, y := range p.result[row*p.columns:][:p.columns] {
			energy += float64(y) * float64(y)
		}
		if energy > 0 {
			shares[j] = errors[j] / energy
		}
	}
	return shares
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
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
	s := splitting{t: activationType(f.bits), hot: hot, isHot: marked(hot, g.width), clip: g.cold(f.hot)}
	s.clip.Low, s.clip.High = fraction*s.clip.Low, fraction*s.clip.High
	s.main = newRounding(s.clip, s.t)
	for _, c := range hot {
		for at := c; at < len(g.rows); at += g.width {
			s.restRange.Low, s.restRange.High = min(s.restRange.Low, g.rows[at]), max(s.restRange.High, g.rows[at])
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
			rounding := s.main
			if s.isHot[c] {
				rounding = s.rest
			}
			e := float64(v) - rounding.round(float64(v))
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
	main, warm := g.terms(p, rows, s.hot)
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

// weightErrors returns for each row the expected squared error of the result that rounding the
// weights to the nearest integers causes. Weights whose errors compensate each other have smaller
// errors in cold channels.
func (g *group) weightErrors(p *product, rows []int, s splitting) []float64 {
	channels := p.weightErrors(s.isHot)
	sums := make([]float64, len(rows))
	split(len(rows), func(j int) {
		for c, v := range g.rows[rows[j]*g.width:][:g.width] {
			sums[j] += float64(v) * float64(v) * channels[c]
		}
	})
	return sums
}

// weightErrors returns for each channel the sum of the squared errors of its weights. The scales
// of hot channels are independent of those of the other channels.
func (p *product) weightErrors(hot []bool) []float64 {
	_, steps := backend.Encoding{}.Limits(backend.Sfixed8)
	sums := make([]float64, len(hot))
	for row := range slices.Chunk(p.weight, len(hot)) {
		var cold, warm float32 // the largest magnitudes of the two kinds of weights
		for c, w := range row {
			if hot[c] {
				warm = max(warm, w, -w)
			} else {
				cold = max(cold, w, -w)
			}
		}
		for c, w := range row {
			scale := float64(cold) / steps
			if hot[c] {
				scale = float64(warm) / steps
			}
			if scale > 0 {
				e := float64(w) - scale*math.RoundToEven(float64(w)/scale)
				sums[c] += e * e
			}
		}
	}
	return sums
}

// marked returns a list of the given length in which the given channels are set.
func marked(channels []int, width int) []bool {
	list := make([]bool, width)
	for _, c := range channels {
		list[c] = true
	}
	return list
}

// terms returns the results of the first product and of the shadow, indexed (row, result).
// The bias is a part of the shadow or, if there is no shadow, of the first product.
func (g *group) terms(p *product, rows, hot []int) (main, warm []float32) {
	main, warm = g.without(p, rows, hot, func(v float32) float32 { return v })
	for i := range main {
		if len(hot) > 0 && p.bias != nil {
			b := p.bias[i%p.columns]
			main[i], warm[i] = main[i]-b, warm[i]+b
		}
	}
	return main, warm
}

// without splits the results of a projection, indexed (row, result). The slice removed holds the
// product of a part of the hot channels, which the function part returns for each number, and
// the slice kept holds the remaining result.
func (g *group) without(p *product, rows, hot []int, part func(v float32) float32) (kept, removed []float32) {
	channels := len(p.weight) / p.columns
	columns := make([]float32, len(hot)*p.columns) // (hot channel, result)
	for i, c := range hot {
		for j := range p.columns {
			columns[i*p.columns+j] = p.weight[j*channels+c]
		}
	}
	kept, removed = make([]float32, len(rows)*p.columns), make([]float32, len(rows)*p.columns)
	split(len(rows), func(j int) {
		x, sum := g.rows[rows[j]*g.width:][:g.width], removed[j*p.columns:][:p.columns]
		for i, c := range hot {
			v := part(x[c])
			if v == 0 {
				continue
			}
			for k, w := range columns[i*p.columns:][:p.columns] {
				sum[k] += v * w
			}
		}
		for k, y := range p.result[rows[j]*p.columns:][:p.columns] {
			kept[j*p.columns+k] = y - sum[k]
		}
	})
	return kept, removed
}

// withRanges returns the form f with the ranges of the results of the first product and of
// the shadow, over all kept rows.
func (g *group) withRanges(f model.Shadow, p *product) model.Shadow {
	rows := make([]int, len(g.rows)/g.width)
	for i := range rows {
		rows[i] = i
	}
	clipped := func(v float32) float32 { return v - min(max(v, f.Clip.Low), f.Clip.High) }
	for part := range slices.Chunk(rows, formRows) {
		main, warm := g.terms(p, part, f.Hot)
		f.Main, f.Warm = joined(f.Main, rangeOf(main)), joined(f.Warm, rangeOf(warm))
		if len(f.Hot) > 0 {
			whole, _ := g.without(p, part, f.Hot, clipped)
			f.Whole = joined(f.Whole, rangeOf(whole))
		}
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
