package shadow

import (
	"fmt"
	"maps"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// Plain returns a copy of a calibration in which every projection has 8 bits and no hot
// channels: plain W8A8 with one range per tensor. A model that runs the recipe w8a8-shadow with
// these ranges clips nothing, and computes all its projections but the head in 8 bits.
func Plain(m *model.Model, calibrated *model.Ranges) (*model.Ranges, error) {
	exact, err := model.FindRecipe("f32")
	if err != nil {
		return nil, err
	}
	g, err := m.Block(model.Block{Name: "names", End: m.Config().Layers, Rows: 1, Context: 1, Recipe: exact, Observe: true})
	if err != nil {
		return nil, err
	}
	plain := *calibrated
	plain.Shadows = maps.Clone(calibrated.Shadows)
	for _, n := range g.Nodes {
		name := g.Tensors[n.Outputs[0]].Name
		if _, projection := plain.Shadows[name]; n.Op != backend.FullyConnected || !projection {
			continue
		}
		in, observed := calibrated.Tensors[g.Tensors[n.Inputs[0]].Name]
		out, known := calibrated.Tensors[name]
		if !observed || !known {
			return nil, fmt.Errorf("shadow: the ranges of the projection %s are missing", name)
		}
		plain.Shadows[name] = model.Shadow{Bits: 8, Clip: in, Main: out}
	}
	return &plain, nil
}

// EightBits returns the fraction of a model's projections that have 8 bits.
func EightBits(r *model.Ranges) float64 {
	n := 0
	for _, s := range r.Shadows {
		if s.Bits == 8 {
			n++
		}
	}
	return float64(n) / float64(len(r.Shadows))
}
