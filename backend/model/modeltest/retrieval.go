package modeltest

import (
	"fmt"
	"math/rand/v2"

	"github.com/sdnpu/sdnpu/backend/quant"
)

// The tokens of a [Retrieval] model, after three special tokens: RetrievalFillers fillers, one
// question for each of RetrievalKeys keys, and RetrievalValues answers for each key.
const (
	RetrievalFillers = 64
	RetrievalKeys    = 8
	RetrievalValues  = 8
)

// Filler, Question and Answer return the tokens of a [Retrieval] model.
func Filler(i int) int32     { return int32(3 + i) }
func Question(key int) int32 { return int32(3 + RetrievalFillers + key) }
func Answer(key, v int) int32 {
	return int32(3 + RetrievalFillers + RetrievalKeys + key*RetrievalValues + v)
}

// Retrieval returns a random model of one layer with a planted retrieval head: after Question(key),
// the likeliest token is the Answer(key, …) that the text contains, at any distance. The queries
// and keys of all other tokens, and those of the second query head, are random.
func Retrieval(rng *rand.Rand, context int) *Model {
	m := New(rng, "llama", quant.F32, false)
	const dim, answers, firstAnswer = 16, RetrievalKeys * RetrievalValues, 3 + RetrievalFillers + RetrievalKeys
	m.Layers, m.Heads, m.KVHeads, m.Dim, m.Base = 1, 2, 1, dim, 1e12
	m.Vocab, m.Context = firstAnswer+answers, context
	m.Hidden = m.Vocab + dim // a dimension for each token, and one for each element of a value
	m.Hidden += (32 - m.Hidden%32) % 32
	m.FFN = 32
	for m.Rebuild(); m.Factors || m.Stretch != 1; {
		m.Rebuild()
	}
	m.AddTokenizer()
	states, logits := make([]float32, m.Vocab*m.Hidden), make([]float32, m.Vocab*m.Hidden)
	queries, keys := make([]float32, 2*dim*m.Hidden), make([]float32, dim*m.Hidden)
	values, out := make([]float32, dim*m.Hidden), make([]float32, m.Hidden*2*dim)
	for t := range m.Vocab {
		states[t*m.Hidden+t] = 1
	}
	const noise, planted = 0.08, 0.7 // a hidden state has the length of the root of Hidden, about 13
	for i := range queries {
		queries[i] = noise * float32(rng.NormFloat64())
	}
	for i := range keys {
		keys[i] = noise * float32(rng.NormFloat64())
	}
	for i := range dim {
		out[(m.Vocab+i)*2*dim+i] = 1
	}
	for key := range RetrievalKeys {
		row := (8 + key) * m.Hidden // RoPE hardly turns the last eight elements
		queries[row+int(Question(key))] = planted
		for v := range RetrievalValues {
			t := int(Answer(key, v))
			keys[row+t] = planted
			for i := range dim {
				code := float32(2*rng.IntN(2) - 1)
				values[i*m.Hidden+t], logits[t*m.Hidden+m.Vocab+i] = code, code
			}
		}
	}
	m.replace("token_embd.weight", states)
	m.replace("output.weight", logits)
	for name, v := range map[string][]float32{"attn_q": queries, "attn_k": keys, "attn_v": values, "attn_output": out} {
		m.replace(fmt.Sprintf("blk.0.%s.weight", name), v)
	}
	m.replace("blk.0.ffn_down.weight", make([]float32, m.Hidden*m.FFN))
	return m
}
