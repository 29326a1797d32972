package sparse

import (
	"math"
	"slices"
)

// Zero is the integer of 8 bits that stands for zero in rounded queries and keys, and in scores.
const Zero = 128

// limit is the largest magnitude of a rounded number.
const limit = 127

// Unit returns the product of integers that one step of a score of 8 bits stands for, for heads of dim
// elements: the least power of two that is at least 16√dim. Larger and smaller products become the largest
// and the smallest score. They are far from the limit of a selection, and fine steps order the keys near
// it. All libraries divide exactly by a power of two: with another divisor, the vendor's library gave
// other scores than the emulator.
func Unit(dim int) float32 {
	return float32(math.Exp2(math.Ceil(math.Log2(16 * math.Sqrt(float64(dim))))))
}

// samples is the number of keys by whose products Spread estimates the limit of a selection.
const samples = 64

// RoundedKeys says what the rounded keys of a head stand for: the key Centre + Scale·K, rotated, is in the
// integers K.
type RoundedKeys struct {
	Scale  float32
	Centre []float32
	// some holds rounded keys, as floats, spread over all of them.
	some Rows
}

// RoundKeys rounds keys of dim elements to integers of 8 bits, with one scale. It subtracts their mean,
// which changes all scores of a query by the same number, and rotates them ([Rotate]).
func RoundKeys(dst []byte, keys []float32, dim int) RoundedKeys {
	centre := make([]float32, dim)
	for i, v := range keys {
		centre[i%dim] += v
	}
	count := len(keys) / dim
	for i := range centre {
		centre[i] /= float32(count)
	}
	most, rotated := float32(0), make([]float32, len(keys))
	for at := 0; at < len(keys); at += dim {
		row := rotated[at : at+dim]
		for i, v := range keys[at : at+dim] {
			row[i] = v - centre[i]
		}
		Rotate(row)
		most = max(most, magnitude(row))
	}
	k := RoundedKeys{Scale: most / limit, Centre: centre, some: Rows{Stride: dim}}
	Round(dst, rotated, k.Scale)
	for s := range min(samples, count) {
		for _, b := range dst[s*count/min(samples, count)*dim:][:dim] {
			k.some.F32 = append(k.some.F32, float32(int(b)-Zero))
		}
	}
	return k
}

// Spread returns how far the scores around the limit of a selection are from zero, relative to the length
// of the query, for queries of dim elements that select the given share of the keys. It looks at some of
// the queries and at some of the keys.
func (k RoundedKeys) Spread(queries []float32, dim int, share float64) (spread float32) {
	const some = 8
	count := len(queries) / dim
	row := make([]float32, dim)
	for s := range min(some, count) {
		copy(row, queries[s*count/min(some, count)*dim:])
		Rotate(row)
		if n := norm(row); n > 0 {
			spread = max(spread, k.farthest(row, share)/n)
		}
	}
	return spread
}

// farthest returns a magnitude that few products of a rotated query exceed between those that half the share
// and one and a half of the share of the keys exceed. Some of the keys stand for all of them: by the order
// of their products, and, because few of them are among a small share, by the normal distribution.
func (k RoundedKeys) farthest(row []float32, share float64) float32 {
	products := make([]float32, len(k.some.F32)/k.some.Stride)
	Products(products, row, k.some)
	slices.Sort(products)
	n, mean, square := float64(len(products)), 0.0, 0.0
	for _, p := range products {
		mean += float64(p) / n
		square += float64(p) * float64(p) / n
	}
	deviation := math.Sqrt(max(0, square-mean*mean))
	most := 0.0
	for _, s := range []float64{share / 2, min(1.5*share, 0.99)} {
		ordered := float64(products[int(max(0, math.Ceil((1-s)*n)-1))])
		normal := mean + deviation*math.Sqrt2*math.Erfinv(1-2*s)
		most = max(most, math.Abs(ordered), math.Abs(normal))
	}
	return float32(most)
}

// RoundQuery rounds a query to integers of 8 bits, rotated as the keys are, and returns its scale. The scale
// is the least for which all integers have 8 bits, or a larger one, so that scores have 8 bits around the
// limit of the selection, too: spread says where that is ([RoundedKeys.Spread]).
func RoundQuery(dst []byte, query []float32, spread float32) (scale float32) {
	row := slices.Clone(query)
	Rotate(row)
	scale = max(magnitude(row), spread*norm(row)/Unit(len(query))) / limit
	Round(dst, row, scale)
	return scale
}

// norm returns the length of a vector.
func norm(row []float32) float32 {
	sum := float32(0)
	for _, v := range row {
		sum += v * v
	}
	return float32(math.Sqrt(float64(sum)))
}

// magnitude returns the largest magnitude of some numbers.
func magnitude(values []float32) (most float32) {
	for _, v := range values {
		most = max(most, v, -v)
	}
	return most
}

// Round rounds numbers to integers of 8 bits in units of a scale. A scale of zero gives zeros.
func Round(dst []byte, values []float32, scale float32) {
	if !(scale > 0) {
		for i := range values {
			dst[i] = Zero
		}
		return
	}
	inverse := 1 / scale
	for i, v := range values {
		n := min(max(v*inverse, -limit), limit)
		if n >= 0 {
			n += 0.5
		} else {
			n -= 0.5
		}
		dst[i] = byte(int32(n) + Zero)
	}
}
