package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/model/modeltest"
	"github.com/sdnpu/sdnpu/backend/quant"
	"github.com/sdnpu/sdnpu/backend/sampler"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/spec"
)

// openFile is an engine of a file on the float device.
func openFile(t *testing.T, path string, o Options) *Engine {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	m, err := model.Load(f)
	require.NoError(t, err)
	tok, err := tokenizer.New(f)
	require.NoError(t, err)
	if o.Recipe == (model.Recipe{}) {
		o.Recipe, err = model.FindRecipe("f32")
		require.NoError(t, err)
	}
	e, err := New(t.Context(), cpu.New(cpu.Options{}), m, tok, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// writeFamily writes a random model of a family whose context is troubleContext.
func writeFamily(t *testing.T, rng *rand.Rand, arch string) string {
	t.Helper()
	m := modeltest.New(rng, arch, quant.F16, false)
	m.Context, m.Layers = troubleContext, 2
	m.Rebuild()
	m.AddTokenizer()
	return writeModel(t, m)
}

func writeModel(t *testing.T, m *modeltest.Model) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, m.Write(f))
	require.NoError(t, f.Close())
	return path
}

// troubleContext is short, so that texts grow out of the first graphs and shift.
const troubleContext = 72

// trouble is what ends a request before its time, after some pieces or draws.
type trouble struct {
	kind  string // "", "cancel", "emit", "mask"
	after int
}

// refusing is a mask that allows everything and, after some draws, nothing.
type refusing struct{ left int }

func (m *refusing) Allowed(int32) bool { return m.left > 0 }
func (m *refusing) Accept(int32)       { m.left-- }

var errGone = errors.New("the client has gone")

// drawRequest draws a request of few different tokens, which are easy to draft.
func drawRequest(rng *rand.Rand, vocab int) (Request, trouble) {
	letter := func() string { return string(rune(0x4e00 + 3 + rng.IntN(vocab-3))) } // see modeltest
	r := Request{
		Prompt: make([]int32, 1+rng.IntN(30)), MaxTokens: rng.IntN(90), CachePrompt: rng.IntN(2) == 0, Shift: rng.IntN(2) == 0,
		Keep: rng.IntN(80), IgnoreEOS: rng.IntN(3) > 0, Logprobs: rng.IntN(2),
		Sampling: sampler.Options{Temperature: float32(rng.IntN(3)) * 0.3, Seed: rng.Uint64()},
	}
	if rng.IntN(6) == 0 && !r.Shift {
		r.MaxTokens = -1
	}
	for i := range r.Prompt {
		r.Prompt[i] = int32(3 + rng.IntN(4))
	}
	if rng.IntN(4) == 0 {
		r.Stop = []string{letter() + letter()}
	}
	return r, trouble{[]string{"", "", "cancel", "emit", "mask"}[rng.IntN(5)], 1 + rng.IntN(40)}
}

// end is how a request ended.
type end struct {
	text   string
	report Report
	err    error
}

// suffer runs a request that gets into trouble.
func suffer(e *Engine, r Request, bad trouble) end {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if bad.kind == "mask" {
		r.Mask = &refusing{bad.after}
	}
	var text strings.Builder
	pieces := 0
	report, err := e.Generate(ctx, r, func(p Piece) error {
		text.WriteString(p.Text)
		switch pieces++; {
		case pieces == bad.after && bad.kind == "cancel":
			cancel()
		case pieces == bad.after && bad.kind == "emit":
			return errGone
		}
		return nil
	})
	return end{text.String(), report, err}
}

// same holds an end against that without drafts. How far a cancelled request
// comes is a matter of time.
func (got end) same(want end, kind string) bool {
	switch {
	case kind == "cancel":
		return strings.HasPrefix(got.text, want.text) || strings.HasPrefix(want.text, got.text)
	case got.text != want.text || fmt.Sprint(got.err) != fmt.Sprint(want.err):
		return false
	}
	return got.err != nil || slices.Equal(got.report.Output, want.report.Output) && got.report.Stop == want.report.Stop
}

// Drafts of several generations that share passes, grow, shift, stop and break
// off change no text, leave nothing in line, and leave the keys and values that
// a prompt of the same tokens has.
func TestTroubledGenerationsThatDraftSayTheSame(t *testing.T) {
	seeds := 4
	if testing.Short() {
		seeds = 1
	}
	modes := []string{"pld", "sam", "cal", "db", "sam+cal", "sam+ext", "default"}
	for seed := range seeds {
		for i, arch := range []string{"gemma3", "phi3", "llama"} { // two with windows
			t.Run(fmt.Sprint(arch, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
				path := writeFamily(t, rng, arch)
				mode, err := draft.Parse(modes[rng.IntN(len(modes))])
				require.NoError(t, err)
				plain := openFile(t, path, Options{Rows: []int{16, 1}, Context: troubleContext})
				e := openFile(t, path, Options{
					Rows: [][]int{{32, 8, 1}, {16, 4}, {7}, {1}}[rng.IntN(4)], Context: troubleContext, FirstContext: 5 + rng.IntN(20),
					Sequences: 1 + rng.IntN(3), Blocks: 2, Draft: mode,
				})
				for range 4 {
					sufferTogether(t, rng, e, plain)
					require.Zero(t, e.line.between)
					require.Empty(t, e.line.jobs)
					requireCachesOfPrompts(t, e, plain)
				}
			})
		}
	}
}

func sufferTogether(t *testing.T, rng *rand.Rand, e, plain *Engine) {
	var group sync.WaitGroup
	for range 6 {
		r, bad := drawRequest(rng, e.config.Vocab)
		alone := r
		alone.CachePrompt = false
		want := suffer(plain, alone, bad)
		group.Go(func() {
			if got := suffer(e, r, bad); !got.same(want, bad.kind) {
				t.Errorf("%+v, rows %v, %+v:\n%q, %v, %s\nwanted\n%q, %v, %s", bad, e.options.Rows, r,
					got.text, got.err, got.report.Stop, want.text, want.err, want.report.Stop)
			}
		})
	}
	group.Wait()
}

// requireCachesOfPrompts compares what sequences hold with what the same tokens
// leave behind as a prompt.
func requireCachesOfPrompts(t *testing.T, e, plain *Engine) {
	for s := range e.options.Sequences {
		tokens := e.Tokens(s)
		if len(tokens) == 0 {
			continue
		}
		_, err := plain.Generate(t.Context(), Request{Prompt: tokens}, func(Piece) error { return nil })
		require.NoError(t, err)
		want, err := plain.ReadCache(nil, 0)
		require.NoError(t, err)
		got, err := e.ReadCache(nil, s)
		require.NoError(t, err)
		require.True(t, slices.Equal(want, got), "the cache of sequence %d", s)
	}
}

// A token whose row of the embedding is broken ends the request that has it in
// its prompt; neither those that share its passes nor one that only draws it as
// a draft notice.
func TestABrokenEmbeddingSpoilsItsOwnRequestAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	m := modeltest.New(rng, "llama", quant.F32, false) // the head has its own matrix
	m.Context = troubleContext
	m.Rebuild()
	m.AddTokenizer()
	const broken, spared = 5, 4
	i := slices.IndexFunc(m.Tensors, func(n gguf.NewTensor) bool { return n.Name == "token_embd.weight" })
	binary.LittleEndian.PutUint32(m.Tensors[i].Data[broken*m.Hidden*4:], math.Float32bits(float32(math.NaN())))
	path := writeModel(t, m)
	e := openFile(t, path, Options{Rows: []int{32, 8, 1}, Context: troubleContext, Sequences: 3, Draft: draft.Mode{Lookup: true}})
	good := Request{Prompt: []int32{3, spared, 3, spared}, MaxTokens: 40, IgnoreEOS: true, Mask: except(broken)}
	want := suffer(e, good, trouble{})
	require.NoError(t, want.err)

	j := &job{tokens: []int32{3}, drafts: &spec.Tree{}, report: &Report{}, done: make(chan struct{})}
	j.drafts.Add(broken, spec.None, 1)
	rows := 0
	j.verify = func(v verdict) ([]int32, error) { rows = len(v.tops); return nil, nil }
	require.NoError(t, e.Truncate(0, 0))
	e.line.enter()
	require.NoError(t, e.compute(t.Context(), j))
	e.line.leave()
	require.Equal(t, 1, rows, "the draft is given up")
	require.NoError(t, e.Truncate(0, 0))

	spoilAlone(t, e, good, want, broken, model.ErrInvalid)
}

// spoilAlone runs sound requests beside others whose token makes them fail with
// an error, and wants of the sound ones what they say alone.
func spoilAlone(t *testing.T, e *Engine, good Request, want end, token int32, failure error) {
	t.Helper()
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for range 5 {
				got := suffer(e, good, trouble{})
				if got.err != nil || !slices.Equal(got.report.Output, want.report.Output) {
					t.Errorf("%v, %v; wanted %v", got.report.Output, got.err, want.report.Output)
				}
			}
		})
		group.Go(func() {
			for range 20 {
				got := suffer(e, Request{Prompt: []int32{3, token, 3}, MaxTokens: 5}, trouble{})
				if !errors.Is(got.err, failure) || !strings.Contains(got.err.Error(), "recipe f32") && failure == sampler.ErrLogits {
					t.Errorf("a request that spoils itself: %v", got.err)
				}
			}
		})
	}
	group.Wait()
	require.Zero(t, e.line.between)
	require.Empty(t, e.line.jobs)
}

// except allows every token but one.
type except int32

func (m except) Allowed(token int32) bool { return token != int32(m) }
func (m except) Accept(int32)             {}

// An embedding that float16 just holds makes the residual stream overflow, and
// with it the keys of the next layer.
func TestAnOverflowSpoilsItsOwnRequestAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	m := modeltest.New(rng, "llama", quant.F32, false)
	m.Context, m.Layers = troubleContext, 3
	m.Rebuild()
	m.AddTokenizer()
	const large, spared = 5, 4
	scale := func(name string, from, n int, f func(float32) float32) {
		i := slices.IndexFunc(m.Tensors, func(n gguf.NewTensor) bool { return n.Name == name })
		data := m.Tensors[i].Data
		for j := from; j < from+n; j++ {
			v := math.Float32frombits(binary.LittleEndian.Uint32(data[4*j:]))
			binary.LittleEndian.PutUint32(data[4*j:], math.Float32bits(f(v)))
		}
	}
	scale("token_embd.weight", large*m.Hidden, m.Hidden, func(float32) float32 { return 65000 })
	scale("blk.0.ffn_down.weight", 0, m.Hidden*m.FFN, func(v float32) float32 { return 2000 * v })
	recipe, err := model.FindRecipe("f16")
	require.NoError(t, err)
	e := openFile(t, writeModel(t, m), Options{
		Recipe: recipe, Rows: []int{32, 8, 1}, Context: troubleContext, Sequences: 3, Draft: draft.Mode{Lookup: true},
	})
	good := Request{Prompt: []int32{3, spared, 3, spared}, MaxTokens: 40, IgnoreEOS: true, Mask: except(large)}
	want := suffer(e, good, trouble{})
	require.NoError(t, want.err)
	spoilAlone(t, e, good, want, large, sampler.ErrLogits)
}
