package forms

import "math"

// otherEncodings adds operators that move elements, with a result whose encoding differs from
// the operand's.
func (t *table) otherEncodings() {
	ignores := "copies the stored integers without converting the encoding"
	for _, types := range []string{"u8", "u16"} {
		for _, x := range []struct {
			op     string
			x, y   []int
			params []Param
			quirk  string
		}{
			{"Reshape", []int{1, 8, 64}, []int{1, 8, 4, 16}, nil, ignores},
			{"Transpose", []int{1, 8, 4, 16}, []int{1, 4, 8, 16}, []Param{u32s("perm", 0, 2, 1, 3)}, ignores},
			{"StridedSlice", []int{1, 2, 8, 16}, []int{1, 2, 8, 8}, []Param{ranges(0, 1, 1, 0, 2, 1, 0, 8, 1, 8, 16, 1)}, ""},
			{"Tile", []int{4, 10}, []int{8, 30}, []Param{u32s("multiples", 2, 3)}, ""},
			{"Pad", []int{4, 10}, []int{5, 16}, []Param{u32("scheme", 0), pads(1, 0, 4, 2)}, ""},
			{"Concat", []int{4, 10}, []int{8, 10}, []Param{u32("axis", 0)}, ""},
			{"Gather", []int{50, 32}, []int{5, 32}, []Param{i32("axis", 0)}, ignores},
		} {
			f := t.add(x.op+", other encoding", types, sizes(x.x...)+" to "+sizes(x.y...), limit{lsb: 0.5}, func(g *Graph) {
				in := []*Tensor{g.input(types, x.x...)}
				wider := in[0].Enc
				wider.Scales = []float32{wider.Scales[0] * 1.37}
				switch x.op {
				case "Concat":
					in = append(in, g.input(types, x.x...))
				case "Gather":
					in = append(in, g.places([]int{5}, 50))
				}
				g.apply(x.op, in, []*Tensor{g.output(types, x.y...).encoded(wider)}, x.params...)
			})
			if x.quirk != "" {
				f.refused("validate", 3110).unjudged(x.quirk)
			}
		}
	}
}

// masks adds forms in which a mask is added to the scores before a Softmax. The Softmax
// must give each element that the mask hides the probability zero.
func (t *table) masks() {
	s := []int{1, 2, 8, 40}
	for _, types := range []string{"f16", "f32"} {
		for _, x := range []struct {
			name   string
			hidden float64
		}{{"-100", -100}, {"-30000", -30000}, {"-65504", -65504}, {"-inf", math.Inf(-1)}} {
			t.add("Softmax after mask", types, x.name, limit{relrms: 2.2e-3}, func(g *Graph) {
				causal := make([]float64, 8*40)
				for i := range causal {
					if i%40 > 32+i/40 {
						causal[i] = x.hidden
					}
				}
				h := g.between(types, s...)
				g.apply("ElementWiseAdd", []*Tensor{g.input(types, s...), g.given(0, types, []int{1, 1, 8, 40}, causal)}, []*Tensor{h})
				g.apply("Softmax", []*Tensor{h}, []*Tensor{g.output(types, s...)}, u32("axis", 3))
			})
		}
	}
	for _, types := range []string{"f16", "f32", "u16", "u8"} {
		for axis := range 3 {
			t.add("Softmax inner axis", types, sizes(axis), limit{}, func(g *Graph) {
				softmax(g, types, s, u32("axis", axis))
			}).refused("validate", 3110)
		}
	}
}
