package model_test

import (
	"fmt"
	"math"
)

// forward is the oracle: the model as its papers write it, in float64, the
// whole text at once, no cache, no graph, no grouping. It returns the logits
// of every position.
func (m *tiny) forward(tokens []int32) [][]float64 {
	x := make([][]float64, len(tokens))
	for i, token := range tokens {
		x[i] = append([]float64(nil), m.weights["token_embd.weight"][int(token)*m.hidden:int(token+1)*m.hidden]...)
	}
	for l := range m.layers {
		p := fmt.Sprintf("blk.%d.", l)
		m.attend(p, x)
		for i := range x {
			h := m.normalise(x[i], p+"ffn_norm.weight")
			gate, up := m.times(p+"ffn_gate", h), m.times(p+"ffn_up", h)
			for j := range gate {
				gate[j] *= up[j] / (1 + math.Exp(-gate[j]))
			}
			addTo(x[i], m.times(p+"ffn_down", gate))
		}
	}
	head := "output"
	if _, ok := m.weights["output.weight"]; !ok {
		head = "token_embd"
	}
	logits := make([][]float64, len(x))
	for i := range x {
		logits[i] = m.times(head, m.normalise(x[i], "output_norm.weight"))
	}
	return logits
}

// attend adds causal attention of every position over the ones before it.
func (m *tiny) attend(p string, x [][]float64) {
	q, k, v := make([][]float64, len(x)), make([][]float64, len(x)), make([][]float64, len(x))
	for i := range x {
		h := m.normalise(x[i], p+"attn_norm.weight")
		q[i], k[i], v[i] = m.times(p+"attn_q", h), m.times(p+"attn_k", h), m.times(p+"attn_v", h)
		m.rotate(q[i], i)
		m.rotate(k[i], i)
	}
	for i := range x {
		mixed := make([]float64, m.heads*m.dim)
		for head := range m.heads {
			at, shared := head*m.dim, head/(m.heads/m.kvHeads)*m.dim
			var sum float64
			out := mixed[at : at+m.dim]
			for j := 0; j <= i; j++ {
				var score float64
				for d := range m.dim {
					score += q[i][at+d] * k[j][shared+d]
				}
				e := math.Exp(score / math.Sqrt(float64(m.dim)))
				sum += e
				for d := range m.dim {
					out[d] += e * v[j][shared+d]
				}
			}
			for d := range out {
				out[d] /= sum
			}
		}
		addTo(x[i], m.times(p+"attn_output", mixed))
	}
}

// rotate turns the pairs of every head: neighbours in llama, halves in qwen2.
func (m *tiny) rotate(x []float64, position int) {
	for start := 0; start < len(x); start += m.dim {
		for j := range m.dim / 2 {
			a, b := start+2*j, start+2*j+1
			if m.arch == "qwen2" {
				a, b = start+j, start+j+m.dim/2
			}
			s, c := math.Sincos(float64(position) / math.Pow(m.base, float64(2*j)/float64(m.dim)))
			x[a], x[b] = x[a]*c-x[b]*s, x[a]*s+x[b]*c
		}
	}
}

func (m *tiny) normalise(x []float64, gamma string) []float64 {
	var squares float64
	for _, v := range x {
		squares += v * v
	}
	scale := 1 / math.Sqrt(squares/float64(len(x))+float64(m.epsilon))
	y := make([]float64, len(x))
	for i := range x {
		y[i] = x[i] * scale * m.weights[gamma][i]
	}
	return y
}

// times multiplies by name.weight and adds name.bias if there is one.
func (m *tiny) times(name string, x []float64) []float64 {
	w := m.weights[name+".weight"]
	y := make([]float64, len(w)/len(x))
	copy(y, m.weights[name+".bias"])
	for i := range y {
		for j := range x {
			y[i] += w[i*len(x)+j] * x[j]
		}
	}
	return y
}

func addTo(x, y []float64) {
	for i := range x {
		x[i] += y[i]
	}
}
