package embed_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine/embed"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/model/modeltest"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// architectures lists the encoders, and decoders that may have a pooling type.
var architectures = slices.Concat(modeltest.Encoders, []string{"qwen3", "llama", "gemma3"})

// random returns a random model with the given pooling, as a file and as the oracle
// that computes expected embeddings.
func random(t testing.TB, rng *rand.Rand, arch string, p model.Pooling) (*model.Model, *modeltest.Model) {
	t.Helper()
	oracle := modeltest.New(rng, arch, quant.F32, true)
	oracle.Key(arch+".pooling_type", uint32(p))
	path := filepath.Join(t.TempDir(), "m.gguf")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, oracle.Write(f))
	require.NoError(t, f.Close())
	file, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	m, err := model.Load(file)
	require.NoError(t, err)
	return m, oracle
}

// expected computes the embeddings of a text directly.
func expected(oracle *modeltest.Model, p model.Pooling, text []int32) (rows [][]float64) {
	states := oracle.HiddenStates(text)
	switch p {
	case model.PoolFirst:
		states = states[:1]
	case model.PoolLast:
		states = states[len(states)-1:]
	case model.PoolMean:
		mean := make([]float64, len(states[0]))
		for _, s := range states {
			for j, v := range s {
				mean[j] += v / float64(len(states))
			}
		}
		states = [][]float64{mean}
	}
	for _, s := range states {
		rows = append(rows, oracle.Dense(s))
	}
	return rows
}

func cosine(a []float32, b []float64) float64 {
	var dot, aa, bb float64
	for i, v := range a {
		dot, aa, bb = dot+float64(v)*b[i], aa+float64(v)*float64(v), bb+b[i]*b[i]
	}
	return dot / math.Sqrt(aa*bb)
}

func newEmbedder(t testing.TB, dev backend.Device, m *model.Model, recipe string, o embed.Options) *embed.Embedder {
	t.Helper()
	r, err := model.FindRecipe(recipe)
	require.NoError(t, err)
	if o.Recipe = r; o.Blocks == 0 {
		o.Blocks = min(2, m.Config().Layers)
	}
	e, err := embed.New(t.Context(), dev, m, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func TestEmbeddingsAgreeWithTheOracle(t *testing.T) {
	dev := cpu.New(cpu.Options{})
	defer dev.Close()
	for i, arch := range architectures {
		for p := model.PoolNone; p <= model.PoolLast; p++ {
			t.Run(fmt.Sprintf("%s/%v", arch, p), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(p)))
				m, oracle := random(t, rng, arch, p)
				require.True(t, m.Config().Embeds)
				texts := modeltest.RandomTexts(rng, 9, 20, oracle.Vocab)
				texts = append(texts, texts[0])
				for recipe, least := range map[string]float64{"f32": 0.9999, "f16": 0.999} {
					e := newEmbedder(t, dev, m, recipe, embed.Options{Rows: []int{48, 8}, Window: 16})
					got, report, err := e.Embed(t.Context(), texts)
					require.NoError(t, err)
					require.Equal(t, len(texts), report.Texts)
					require.Less(t, report.Passes, len(texts), "texts share passes")
					for j, text := range texts {
						want := expected(oracle, p, text)
						require.Len(t, got[j], len(want))
						for k := range want {
							require.GreaterOrEqual(t, cosine(got[j][k], want[k]), least, "%s, text %d, row %d", recipe, j, k)
						}
					}
					require.Equal(t, got[0], got[len(texts)-1], "equal texts of one call have equal embeddings")
				}
			})
		}
	}
}

func TestOtherTextsDoNotChangeAnEmbedding(t *testing.T) {
	dev := cpu.New(cpu.Options{})
	defer dev.Close()
	for _, arch := range architectures {
		rng := rand.New(rand.NewPCG(3, 4))
		m, oracle := random(t, rng, arch, model.PoolMean)
		e := newEmbedder(t, dev, m, "f32", embed.Options{Rows: []int{64, 16}, Window: 16})
		texts := modeltest.RandomTexts(rng, 12, 16, oracle.Vocab)
		together, _, err := e.Embed(t.Context(), texts)
		require.NoError(t, err)
		for i, text := range texts {
			alone, report, err := e.Embed(t.Context(), [][]int32{text})
			require.NoError(t, err)
			require.Equal(t, 1, report.Passes)
			require.Equal(t, together[i], alone[0], "%s, text %d", arch, i)
		}
	}
}

func TestConcurrentCallsShareTheDeviceAndGetTheirOwnTexts(t *testing.T) {
	dev := cpu.New(cpu.Options{})
	defer dev.Close()
	rng := rand.New(rand.NewPCG(5, 6))
	m, oracle := random(t, rng, "bert", model.PoolMean)
	e := newEmbedder(t, dev, m, "f32", embed.Options{Rows: []int{32}})
	texts := modeltest.RandomTexts(rng, 40, 10, oracle.Vocab)
	want, _, err := e.Embed(t.Context(), texts)
	require.NoError(t, err)
	var group sync.WaitGroup
	got, errs := make([][][]float32, len(texts)), make([]error, len(texts))
	for i, text := range texts {
		group.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 4 {
				cancel()
			}
			var one [][][]float32
			if one, _, errs[i] = e.Embed(ctx, [][]int32{text}); errs[i] == nil {
				got[i] = one[0]
			}
		})
	}
	group.Wait()
	for i := range texts {
		if errs[i] != nil {
			require.ErrorIs(t, errs[i], context.Canceled)
			require.Equal(t, 4, i%5)
			continue
		}
		require.Equal(t, want[i], got[i], "text %d", i)
	}
}

func TestTextsThatDoNotFitAreRejected(t *testing.T) {
	dev := cpu.New(cpu.Options{})
	defer dev.Close()
	m, oracle := random(t, rand.New(rand.NewPCG(7, 8)), "bert", model.PoolFirst)
	e := newEmbedder(t, dev, m, "f32", embed.Options{})
	require.Equal(t, oracle.Context, e.Longest())
	_, _, err := e.Embed(t.Context(), [][]int32{make([]int32, oracle.Context)})
	require.NoError(t, err)
	for _, c := range []struct {
		text []int32
		want error
	}{{make([]int32, oracle.Context+1), embed.ErrTooLong}, {nil, embed.ErrText}, {[]int32{-1}, embed.ErrText}, {[]int32{int32(oracle.Vocab)}, embed.ErrText}} {
		_, _, err := e.Embed(t.Context(), [][]int32{{1}, c.text})
		require.ErrorIs(t, err, c.want)
	}
	require.NoError(t, e.Close())
	_, _, err = e.Embed(t.Context(), [][]int32{{1}})
	require.ErrorIs(t, err, backend.ErrClosed)
}
