package lanes

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"time"

	"github.com/sdnpu/sdnpu/backend/quant"
)

// outliers lists the elements of a matrix outside a range, channel by channel.
type outliers struct {
	channels []int // channels lists the channels with outliers, ascending
	starts   []int // starts[i] is the index of the first outlier of channels[i]; one more entry ends the last channel
	rows     []int32
	// values holds how far each outlier exceeds the range.
	values []float32
}

// find finds the elements of x, a matrix of float16, outside [low,high].
func find(x []byte, rows, channels int, low, high float32) outliers {
	// The bits of positive float16 numbers have the numbers' order. An element is an outlier if its
	// bits without the sign exceed those of the limit. NaN exceeds every limit.
	above, below := floorBits(high), floorBits(-low)
	counts, found := make([]int32, channels), 0
	for row := range rows {
		for c := range counts {
			if beyond(binary.LittleEndian.Uint16(x[2*(row*channels+c):]), above, below) {
				counts[c]++
				found++
			}
		}
	}
	o := outliers{rows: make([]int32, found), values: make([]float32, found)}
	next, total := make([]int, channels), 0
	for c, n := range counts {
		next[c] = total
		if n > 0 {
			o.channels, o.starts = append(o.channels, c), append(o.starts, total)
			total += int(n)
		}
	}
	o.starts = append(o.starts, total)
	for row := range rows {
		for c, n := range counts {
			if n == 0 {
				continue
			}
			bits := binary.LittleEndian.Uint16(x[2*(row*channels+c):])
			if !beyond(bits, above, below) {
				continue
			}
			v, limit := quant.F16ToF32(bits), high
			if bits&signBit != 0 {
				limit = low
			}
			o.rows[next[c]], o.values[next[c]] = int32(row), v-limit
			next[c]++
		}
	}
	return o
}

const signBit = 0x8000

// beyond reports whether a float16 is outside the range whose limits have the given bits.
func beyond(bits, above, below uint16) bool {
	if bits&signBit != 0 {
		return bits&^signBit > below
	}
	return bits > above
}

// floorBits returns the bits of the largest float16 that is at most v, for v ≥ 0.
func floorBits(v float32) uint16 {
	bits := quant.F32ToF16(v)
	if quant.F16ToF32(bits) > v {
		bits--
	}
	return bits
}

// compute computes the products of one step. x holds the step's input, and results[i] gets the
// result of product i.
func (d *Device) compute(ctx context.Context, s *step, x []byte, results [][]byte) error {
	began := time.Now()
	for i := range s.Products {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.multiply(s, &s.Products[i], x, results[i]); err != nil {
			return fmt.Errorf("lanes: %s: %w", s.Products[i].Output, err)
		}
	}
	d.account.steps.Add(1)
	d.account.cpu.Add(int64(time.Since(began)))
	return nil
}

// multiply computes one product of a step.
func (d *Device) multiply(s *step, p *product, x, result []byte) error {
	o := find(x, s.Rows, s.Channels, p.Low, p.High)
	a := &d.account
	a.products.Add(1)
	a.outliers.Add(int64(len(o.values)))
	a.channels.Add(int64(len(o.channels)))
	a.multiplications.Add(int64(len(o.values)) * int64(p.Columns))
	if len(o.values) == 0 {
		clear(result)
		return nil
	}
	columns, missing := d.memory.get(p.Weight, o.channels, p.Columns)
	workers := max(1, min(runtime.GOMAXPROCS(0), s.Rows, len(o.values)*p.Columns/minWork))
	errs := make([]error, workers)
	var group guarded
	if len(missing) > 0 {
		group.start(func() { d.memory.read(missing) })
	}
	for w := range workers {
		first, end := w*s.Rows/workers, (w+1)*s.Rows/workers
		group.start(func() { errs[w] = multiplyRows(o, columns, result, first, end, p.Columns) })
	}
	group.wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// minWork is the least number of multiplications for which another goroutine saves time.
const minWork = 1 << 16

// multiplyRows computes the rows [first,end) of a product. The sum of a row has the order of the
// channels.
func multiplyRows(o outliers, columns []*column, result []byte, first, end, width int) error {
	sums, touched := make([]float32, (end-first)*width), make([]bool, end-first)
	for i, c := range columns {
		<-c.ready
		if c.err != nil {
			return c.err
		}
		for j := o.starts[i]; j < o.starts[i+1]; j++ {
			row := int(o.rows[j])
			if row < first || row >= end {
				continue
			}
			touched[row-first] = true
			addScaled(sums[(row-first)*width:][:width], c.weights, o.values[j])
		}
	}
	for row := first; row < end; row++ {
		to := result[2*row*width:][:2*width]
		if !touched[row-first] {
			clear(to)
			continue
		}
		for i, v := range sums[(row-first)*width:][:width] {
			binary.LittleEndian.PutUint16(to[2*i:], quant.F32ToF16(v))
		}
	}
	return nil
}

// addScaled adds the weights, each multiplied by v, to the sums. Each product is rounded before it
// is added, so that all machines compute the same.
func addScaled(sums, weights []float32, v float32) {
	weights = weights[:len(sums)]
	i := 0
	for ; i+4 <= len(sums); i += 4 {
		s, w := sums[i:i+4:i+4], weights[i:i+4:i+4]
		s[0] += float32(w[0] * v)
		s[1] += float32(w[1] * v)
		s[2] += float32(w[2] * v)
		s[3] += float32(w[3] * v)
	}
	for ; i < len(sums); i++ {
		sums[i] += float32(weights[i] * v)
	}
}
