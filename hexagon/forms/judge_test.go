package forms

import (
	"fmt"
	"math"

	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// grade is the error of a result.
type grade struct {
	relrms, lsb float64
	wrong       int // whole numbers that are not equal
}

func (g grade) String() string {
	switch {
	case g.wrong > 0:
		return fmt.Sprintf("%d whole numbers differ", g.wrong)
	case g.relrms > 0 && g.lsb > 0:
		return fmt.Sprintf("%.1e, %.2f LSB", g.relrms, g.lsb)
	case g.relrms > 0:
		return fmt.Sprintf("%.1e", g.relrms)
	case g.lsb > 0:
		return fmt.Sprintf("%.2f LSB", g.lsb)
	}
	return "exact"
}

// within tells whether an error is allowed.
func (g grade) within(relrms, lsb float64) bool {
	return g.wrong == 0 && g.relrms <= relrms && g.lsb <= lsb
}

func (g grade) worst(other grade) grade {
	return grade{max(g.relrms, other.relrms), max(g.lsb, other.lsb), g.wrong + other.wrong}
}

// judge compares outputs with the reference.
func judge(g *Graph, outputs [][]byte) (worst grade, err error) {
	for _, t := range g.Tensors {
		if t.Kind != qnn.AppRead {
			continue
		}
		if len(outputs) == 0 || len(outputs[0]) != len(t.real)*t.Type.Size() {
			return worst, fmt.Errorf("output %s is missing or has another size", t.Name)
		}
		worst = worst.worst(t.judge(outputs[0]))
		outputs = outputs[1:]
	}
	return worst, nil
}

func (t *Tensor) judge(data []byte) grade {
	got := decode(t.Type, &t.Enc, t.Dims, data)
	var g grade
	if t.Enc.Scheme != unquantized {
		r := integers[t.Type]
		scale, offset := t.Enc.at(t.Dims, 0)
		for i, want := range t.real {
			want = min(max(want, (r.low+offset)*scale), (r.high+offset)*scale) // saturation is right
			g.lsb = max(g.lsb, math.Abs(got[i]-want)/scale)
		}
		g.lsb = math.Round(g.lsb*1e4) / 1e4 // scales are float32
		return g
	}
	if _, whole := integers[t.Type]; whole {
		for i, want := range t.real {
			if got[i] != want {
				g.wrong++
			}
		}
		return g
	}
	errorSquares, squares := 0.0, 0.0
	for i, want := range t.real {
		if math.IsNaN(got[i]) || math.IsInf(got[i], 0) {
			return grade{relrms: math.Inf(1)}
		}
		errorSquares += (got[i] - want) * (got[i] - want)
		squares += want * want
	}
	if errorSquares > 0 {
		g.relrms = math.Sqrt(errorSquares / max(squares, 1e-30))
	}
	return g
}
