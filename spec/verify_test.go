package spec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/spec/ngram"
)

// toy is a model with a vocabulary of four tokens. The distribution of the next token
// depends on the whole text, and tokens with nearly equal probabilities are common.
func toy(text []int32) [4]float64 {
	h := ngram.Empty
	for _, token := range text {
		h = h.Extend(token)
	}
	rng := rand.New(rand.NewPCG(uint64(h), 9))
	var p [4]float64
	sum := 0.0
	for i := range p {
		p[i] = math.Round(rng.Float64()*8) + 0.01
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func draw(p [4]float64, u float64) int32 {
	for i, v := range p {
		if u -= v; u < 0 {
			return int32(i)
		}
	}
	return 3
}

// decode emits n tokens after the prompt, with or without drafts.
func decode(prompt []int32, n int, seed uint64, propose func(text []int32, tree *Tree)) (text []int32, accepted, rejected int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	text = append(text, prompt...)
	for len(text) < len(prompt)+n {
		var tree Tree
		if propose != nil {
			propose(text, &tree)
		}
		said := len(text)
		choose := func(row int32) (int32, bool) {
			var path []int32
			for r := row; r != None; r = tree.Parents[r] {
				path = append([]int32{tree.Tokens[r]}, path...)
			}
			context := append(append([]int32{}, text...), path...)
			token := draw(toy(context), rng.Float64())
			return token, len(context)+1 < len(prompt)+n
		}
		path, tokens := Verify(&tree, choose, nil, nil)
		text = append(text, tokens...)
		if len(tokens) != len(path)+1 && len(text) < len(prompt)+n {
			panic("one token more than accepted rows")
		}
		accepted += len(text) - said - 1
		rejected += tree.Len() - len(path)
	}
	return text, accepted, rejected
}

func TestDraftsNeverChangeText(t *testing.T) {
	accepted, rejected := 0, 0
	for seed := range uint64(1000) {
		prompt := randomText(rand.New(rand.NewPCG(seed, 8)), 3, 4, false)
		plain, _, _ := decode(prompt, 40, seed, nil)
		drafters := map[string]func([]int32, *Tree){
			"random trees": func(text []int32, tree *Tree) { randomTree(rand.New(rand.NewPCG(seed, uint64(len(text)))), tree) },
			"the right text with wrong siblings": func(text []int32, tree *Tree) {
				parent := None
				for i := len(text); i < min(len(plain), len(text)+5); i++ {
					tree.Add((plain[i]+1)%4, parent, 1)
					parent = tree.Add(plain[i], parent, 1)
				}
			},
			"always wrong": func(text []int32, tree *Tree) {
				if len(text) < len(plain) {
					tree.Add((plain[len(text)]+1)%4, None, 1)
				}
			},
		}
		for name, propose := range drafters {
			text, a, r := decode(prompt, 40, seed, propose)
			require.Equal(t, plain, text, "%s, seed %d", name, seed)
			accepted, rejected = accepted+a, rejected+r
		}
	}
	require.Positive(t, accepted)
	require.Positive(t, rejected)
}

func randomTree(rng *rand.Rand, tree *Tree) {
	for range rng.IntN(12) {
		parent, token := int32(rng.IntN(tree.Len()+1))-1, int32(rng.IntN(4))
		if tree.Child(parent, token) == None {
			tree.Add(token, parent, 1)
		}
	}
}

func TestSampledTextsFollowExactDistribution(t *testing.T) {
	const length, draws = 3, 20000
	prompt := []int32{1}
	counts := make(map[[length]int32]int)
	for seed := range uint64(draws) {
		text, _, _ := decode(prompt, length, seed, func(text []int32, tree *Tree) {
			randomTree(rand.New(rand.NewPCG(seed, uint64(len(text)))), tree)
		})
		counts[[length]int32(text[1:1+length])]++
	}
	chi, cells := 0.0, 0
	for i := range int32(64) {
		said := [length]int32{i / 16, i / 4 % 4, i % 4}
		expected := draws * toy(prompt)[said[0]] *
			toy([]int32{1, said[0]})[said[1]] * toy([]int32{1, said[0], said[1]})[said[2]]
		if expected < 5 { // the expected count is too small for the chi-square approximation
			continue
		}
		difference := float64(counts[said]) - expected
		chi += difference * difference / expected
		cells++
	}
	// The test allows a chi-square up to its 99.9th percentile, by the approximation of
	// Wilson and Hilferty.
	n := float64(cells - 1)
	limit := n * math.Pow(1-2/(9*n)+3.09*math.Sqrt(2/(9*n)), 3)
	require.Less(t, chi, limit, "%d cells", cells)
	require.Greater(t, cells, 20)
}

func TestTrustFollowsAcceptance(t *testing.T) {
	var tr Trust
	require.InDelta(t, 1, tr.Factor(), 0)
	scores := []float32{0.9, 0.8, 0.7}
	for range 200 {
		tr.Observe(scores, 1)
	}
	require.InDelta(t, 1/2.4, tr.Factor(), 0.05)
	for range 200 {
		tr.Observe(scores, 3)
	}
	require.InDelta(t, 3/2.4, tr.Factor(), 0.05)
}
