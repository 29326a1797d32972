package engine

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/model/modeltest"
	"github.com/sdnpu/sdnpu/backend/quant"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

func TestZZ(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := modeltest.New(rng, "llama", quant.F32, false)
	m.Context, m.Layers = 64, 3
	m.Rebuild()
	m.AddTokenizer()
	for i := range m.Tensors {
		tt := &m.Tensors[i]
		t.Log(tt.Name)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, m.Write(f))
	require.NoError(t, f.Close())
	// token 5's embedding becomes huge
	g, err := gguf.Open(path)
	require.NoError(t, err)
	var off int64
	raw, _ := os.ReadFile(path)
	for x := range g.Tensors() {
		if x.Name == "token_embd.weight" {
			b := x.Bytes()
			for i := 0; i+len(b) <= len(raw); i += 32 {
				if string(raw[i:i+64]) == string(b[:64]) {
					off = int64(i)
				}
			}
		}
	}
	g.Close()
	for i := range m.Hidden {
		p := off + int64(4*(5*m.Hidden+i))
		raw[p], raw[p+1], raw[p+2], raw[p+3] = 0, 0, 0x7f, 0x7f // 3.3e38
	}
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	g, err = gguf.Open(path)
	require.NoError(t, err)
	defer g.Close()
	mm, err := model.Load(g)
	require.NoError(t, err)
	tok, err := tokenizer.New(g)
	require.NoError(t, err)
	rec, _ := model.FindRecipe("f16")
	e, err := New(t.Context(), cpu.New(cpu.Options{}), mm, tok, Options{Recipe: rec, Rows: []int{16, 3, 1}, Context: 64, Sequences: 3})
	require.NoError(t, err)
	defer e.Close()
	run := func(name string, r Request) {
		rep, err := e.Generate(t.Context(), r, func(Piece) error { return nil })
		t.Log(name, rep.Output, rep.SharedRows, err)
	}
	run("good alone", Request{Prompt: []int32{3, 4}, MaxTokens: 5, IgnoreEOS: true})
	run("bad alone", Request{Prompt: []int32{3, 5, 4}, MaxTokens: 5, IgnoreEOS: true})
	run("good after", Request{Prompt: []int32{3, 4}, MaxTokens: 5, IgnoreEOS: true})
	var w sync.WaitGroup
	for range 3 {
		w.Go(func() { run("good", Request{Prompt: []int32{3, 4}, MaxTokens: 40, IgnoreEOS: true}) })
		w.Go(func() { run("bad", Request{Prompt: []int32{3, 5, 4}, MaxTokens: 5, IgnoreEOS: true}) })
	}
	w.Wait()
}
