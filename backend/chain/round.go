package chain

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// largestGroup is how many inputs are rounded together at most. What a matrix
// costs grows with it, and its moments with its square; inputs of different
// groups make up for none of each other's errors.
const largestGroup = 640

// Keep takes the integers of a matrix, (row, column) in the order of the graph's
// constant of that name, and does not hold on to them.
type Keep func(constant string, codes []byte) error

// rounder rounds the matrices of one layer after it has seen what they were
// multiplied with.
type rounder struct {
	inputs map[string]*inputs // by tensor
	nodes  []*backend.Node    // projections
	graph  *backend.Graph
}

// inputs are the moments of a tensor's last dimension, those of each group
// (input, input), filled on and above the diagonal.
type inputs struct {
	width  int
	groups [][2]int // first and end
	sums   [][]float32
}

func newRounder(g *backend.Graph) *rounder {
	r := &rounder{inputs: make(map[string]*inputs), graph: g}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Op != backend.FullyConnected {
			continue
		}
		r.nodes = append(r.nodes, n)
		x := &g.Tensors[n.Inputs[0]]
		if r.inputs[x.Name] == nil {
			r.inputs[x.Name] = newInputs(x.Shape[len(x.Shape)-1])
		}
	}
	return r
}

func newInputs(width int) *inputs {
	in := &inputs{width: width}
	count := (width + largestGroup - 1) / largestGroup
	for i := range count {
		g := [2]int{i * width / count, (i + 1) * width / count}
		in.groups = append(in.groups, g)
		in.sums = append(in.sums, make([]float32, (g[1]-g[0])*(g[1]-g[0])))
	}
	return in
}

// see adds rows of a tensor.
func (r *rounder) see(tensor string, values []float32) {
	if in := r.inputs[tensor]; in != nil {
		in.add(values)
	}
}

func (in *inputs) add(values []float32) {
	rows := len(values) / in.width
	columns := make([]float32, len(values)) // (input, row)
	for row := range rows {
		for i, v := range values[row*in.width:][:in.width] {
			columns[i*rows+row] = v
		}
	}
	for g, span := range in.groups {
		n, sums, part := span[1]-span[0], in.sums[g], columns[span[0]*rows:span[1]*rows]
		split(n, func(i int) {
			a := part[i*rows:][:rows]
			for j := i; j < n; j++ {
				sums[i*n+j] += product(a, part[j*rows:][:rows])
			}
		})
	}
}

// product is the sum of products, in four parts that additions need not wait for.
func product(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	for len(a) >= 4 && len(b) >= 4 {
		s0 += float32(a[0] * b[0])
		s1 += float32(a[1] * b[1])
		s2 += float32(a[2] * b[2])
		s3 += float32(a[3] * b[3])
		a, b = a[4:], b[4:]
	}
	for i, v := range a {
		s0 += float32(v * b[i])
	}
	return s0 + s1 + s2 + s3
}

// compensators are those of the groups.
func (in *inputs) compensators() ([]*quant.Compensator, error) {
	list, errs := make([]*quant.Compensator, len(in.groups)), make([]error, len(in.groups))
	split(len(in.groups), func(g int) {
		n, sums := in.groups[g][1]-in.groups[g][0], in.sums[g]
		for i := range n {
			for j := range i {
				sums[i*n+j] = sums[j*n+i]
			}
		}
		list[g], errs[g] = quant.NewCompensator(sums, n)
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// round gives keep the layer's matrices, in the graph's order.
func (r *rounder) round(keep Keep) error {
	made := make(map[string][]*quant.Compensator)
	for _, n := range r.nodes {
		x, matrix := r.graph.Tensors[n.Inputs[0]].Name, &r.graph.Tensors[n.Inputs[1]]
		in := r.inputs[x]
		if made[x] == nil {
			list, err := in.compensators()
			if err != nil {
				return fmt.Errorf("chain: round %s: %w", matrix.Name, err)
			}
			made[x] = list
		}
		codes, err := in.codes(made[x], matrix)
		if err != nil {
			return fmt.Errorf("chain: round %s: %w", matrix.Name, err)
		}
		if err := keep(matrix.Name, codes); err != nil {
			return err
		}
	}
	return nil
}

// codes are the integers of a matrix of float32.
func (in *inputs) codes(list []*quant.Compensator, matrix *backend.Tensor) ([]byte, error) {
	raw := make([]byte, matrix.SizeBytes())
	if err := matrix.Values.Fill(raw); err != nil {
		return nil, err
	}
	_, high := backend.Encoding{}.Limits(backend.Sfixed8)
	codes := make([]byte, matrix.Elements())
	split(matrix.Shape[0], func(i int) {
		row, rounded, scratch := make([]float32, in.width), make([]int8, in.width), make([]float32, in.width)
		for j := range row {
			row[j] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*(i*in.width+j):]))
		}
		step := quant.SymmetricStep(row, high)
		for g, span := range in.groups {
			list[g].Round(rounded[span[0]:span[1]], row[span[0]:span[1]], step, high, scratch[:span[1]-span[0]])
		}
		for j, q := range rounded {
			codes[i*in.width+j] = byte(q)
		}
	})
	return codes, nil
}

// split calls work for each number below n, on all cores.
func split(n int, work func(i int)) {
	parts := min(runtime.GOMAXPROCS(0), n)
	var group sync.WaitGroup
	for part := range parts {
		group.Go(func() {
			for i := part; i < n; i += parts { // early ones may cost more
				work(i)
			}
		})
	}
	group.Wait()
}
