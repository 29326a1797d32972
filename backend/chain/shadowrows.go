package chain

import (
	"cmp"
	"slices"

	"github.com/sdnpu/sdnpu/backend/model"
)

// formRows limits the number of evenly spaced rows on which the forms of a projection are
// compared. outlierRows is the number of rows with the largest numbers, which are compared too.
const formRows, outlierRows = 256, 16

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
