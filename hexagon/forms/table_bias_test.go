package forms

import "github.com/sdnpu/sdnpu/hexagon/qnn"

// biases adds forms of linear layers with a bias, and with activations of more than two
// dimensions.
func (t *table) biases() {
	m, k, n := 8, 64, 96
	for _, x := range []struct {
		act, weight string
		limit       limit
	}{
		{"f16", "f16", limit{relrms: 2.1e-4}},
		{"f32", "f32", limit{relrms: 3.6e-4, vendor: 1.5}},
		{"u8", "s8c", limit{lsb: 0.6}},
		{"u16", "s8c", limit{lsb: 1, vendor: 2}},
		{"u8", "s8", limit{lsb: 0.6}},
		{"u16", "s8", limit{lsb: 1, vendor: 2}},
		{"u8", "lpbq32", limit{lsb: 0.6}},
		{"u16", "lpbq32", limit{lsb: 1.1, vendor: 2}},
	} {
		ops := linearOps
		// of the operators with LPBQ weights, our graphs use a bias only in Conv2d
		if formatOf(x.weight).scheme == lpbq {
			ops = ops[len(ops)-1:]
		}
		for _, op := range ops {
			f := t.add(op.row+" with bias", x.act+"·"+x.weight, sizes(m, k, n), x.limit, func(g *Graph) {
				op.build(g, x.act, x.weight, m, k, n, func(x, w *Tensor) *Tensor { return g.biasOf(x, w, n, 3) })
			})
			if formatOf(x.act).quantized() && (op.row == "MatMul" || op.row == "MatMul transposed") {
				f.refused("validate", 3110).unjudged("adds a quantized bias wrongly, or refuses it in addNode (1000) if weights are per channel")
			}
		}
		t.elsewhere(len(ops))
	}
	for _, x := range []struct {
		act, weight string
		limit       limit
	}{{"f16", "f16", limit{relrms: 2.1e-4}}, {"u8", "s8c", limit{lsb: 0.6}}, {"u16", "s8c", limit{lsb: 1, vendor: 2}}} {
		for _, lead := range [][]int{{1, m}, {1, 1, m}, {1, 2, m}} {
			f := t.add("FullyConnected keep_dims", x.act+"·"+x.weight, sizes(append(lead, k, n)...), x.limit, func(g *Graph) {
				in := []*Tensor{g.input(x.act, append(lead[:len(lead):len(lead)], k)...), g.weights(x.weight, 0, 1, n, k)}
				g.apply("FullyConnected", in, []*Tensor{g.output(x.act, append(lead[:len(lead):len(lead)], n)...)}, boolean("keep_dims", true))
			})
			f.unlike("its validation refuses keep_dims, which its compiler supports", "validate", 3110)
			t.add("FullyConnected flattened", x.act+"·"+x.weight, sizes(append(lead, k, n)...), x.limit, func(g *Graph) {
				in := []*Tensor{g.input(x.act, append(lead[:len(lead):len(lead)], k)...), g.weights(x.weight, 0, 1, n, k)}
				g.apply("FullyConnected", in, []*Tensor{g.output(x.act, count(lead), n)}, boolean("keep_dims", false))
			})
		}
	}
}

// biasOf declares the bias of a linear layer: with the input's type if that is a float,
// otherwise with the scale of the products.
func (g *Graph) biasOf(x, w *Tensor, outputs int, deviation float64) *Tensor {
	n := []int{outputs}
	if x.Enc.Scheme == unquantized {
		return g.add(qnn.Static, format{Type: x.Type}, n, g.normal(n, deviation), x.Enc)
	}
	e := Encoding{Scheme: perChannel}
	if len(w.Enc.Scales) == 1 {
		e.Scheme = perTensor
	}
	for _, scale := range w.Enc.Scales {
		e.Scales, e.Offsets = append(e.Scales, x.Enc.Scales[0]*scale), append(e.Offsets, 0)
	}
	return g.add(qnn.Static, formatOf("s32"), n, g.normal(n, deviation), e)
}
