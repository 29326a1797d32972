package gguf_test

import (
	"crypto/sha256"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	ollama "github.com/ollama/ollama/fs/gguf"
	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/quant"
)

const models = "../../integration_test/models"

func open(t testing.TB, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func TestModelsReadAsOllamaReadsThem(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(models, "*.gguf"))
	require.NoError(t, err)
	require.Len(t, paths, 6)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f := open(t, path)
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			want, err := ollama.Open(path)
			require.NoError(t, err)
			defer want.Close()

			tensors := slices.Collect(f.Tensors())
			require.Len(t, tensors, want.NumTensors())
			for i, w := range want.TensorInfos() {
				got := tensors[i]
				require.Equal(t, w.Name, got.Name)
				require.Equal(t, uint32(w.Type), uint32(got.Type))
				require.Equal(t, w.NumBytes(), got.Size)
				require.EqualValues(t, w.NumValues(), got.Elements())
				require.Equal(t, raw[got.Offset:got.Offset+got.Size], got.Bytes())
				again, err := f.Tensor(w.Name)
				require.NoError(t, err)
				require.Equal(t, got, again)
			}
			require.NoError(t, want.Err())
			require.Equal(t, sha256.Sum256(raw), f.Digest())
			require.EqualValues(t, len(raw), f.Size())
			require.Equal(t, 3, f.Version())
			require.Len(t, slices.Collect(f.Keys()), want.NumKeyValues())
			for _, kv := range want.KeyValues() {
				requireValue(t, f, kv)
			}
		})
	}
}

// requireValue compares a key's value with the value that Ollama's reader returns, which is the
// zero value for other types.
func requireValue(t *testing.T, f *gguf.File, kv ollama.KeyValue) {
	t.Helper()
	none := errors.New("another type")
	for name, pair := range map[string][2]any{
		"Str": {orNil(f.Str(kv.Key)), kv.String()}, "Bool": {orNil(f.Bool(kv.Key)), kv.Bool()},
		"Strs": {orNil(f.Strs(kv.Key)), kv.Strings()}, "Bools": {orNil(f.Bools(kv.Key)), kv.Bools()},
		"Floats": {orNil(f.Floats(kv.Key)), kv.Floats()},
	} {
		if pair[0] != nil {
			require.Equal(t, pair[1], pair[0], "%s %s", name, kv.Key)
			none = nil
		}
	}
	if n, err := f.Int(kv.Key); err == nil {
		require.Equal(t, max(kv.Int(), int64(kv.Uint())), n, kv.Key)
		none = nil
	} else if x, err := f.Float(kv.Key); err == nil {
		require.InDelta(t, kv.Float(), x, 0, kv.Key)
		none = nil
	}
	if ints, err := f.Ints(kv.Key); err == nil {
		require.Len(t, ints, max(len(kv.Ints()), len(kv.Uints())), kv.Key)
		for i, n := range kv.Ints() {
			require.Equal(t, n, ints[i], kv.Key)
		}
		for i, n := range kv.Uints() {
			require.EqualValues(t, n, ints[i], kv.Key)
		}
		none = nil
	}
	require.NoError(t, none, "%s no getter returns it", kv.Key)
}

func orNil[T any](v T, err error) any {
	if err != nil {
		return nil
	}
	return v
}

func TestModelKeysHaveTheirValues(t *testing.T) {
	f := open(t, filepath.Join(models, "stories260K-qwen2-f16.gguf"))
	require.Equal(t, "qwen2", f.Architecture())
	blocks, err := f.ArchUint("block_count")
	require.NoError(t, err)
	require.EqualValues(t, 5, blocks)
	eps, err := f.ArchFloat("attention.layer_norm_rms_epsilon")
	require.NoError(t, err)
	require.InDelta(t, 1e-5, eps, 1e-12)
	bos, err := f.Bool("tokenizer.ggml.add_bos_token")
	require.NoError(t, err)
	require.True(t, bos)
	tokens, err := f.Strs("tokenizer.ggml.tokens")
	require.NoError(t, err)
	require.Len(t, tokens, 512)
	require.Equal(t, []string{"<unk>", "<s>", "</s>", "<0x00>"}, tokens[:4])
	scores, err := f.Floats("tokenizer.ggml.scores")
	require.NoError(t, err)
	require.Len(t, scores, 512)
	types, err := f.Ints("tokenizer.ggml.token_type")
	require.NoError(t, err)
	require.Equal(t, []int64{2, 3, 3, 6}, types[:4])

	embedding, err := f.Tensor("token_embd.weight")
	require.NoError(t, err)
	require.Equal(t, []int{64, 512}, embedding.Shape)
	require.Equal(t, quant.F16, embedding.Type)
	_, err = f.Tensor("output.weight")
	require.ErrorIs(t, err, gguf.ErrNoTensor)
}

func TestAbsentKeysAndWrongTypesDiffer(t *testing.T) {
	path := write(t, []gguf.KeyValue{
		{"general.architecture", "test"},
		{"u8", uint8(200)},
		{"i32", int32(-7)},
		{"u64", uint64(math.MaxUint64)},
		{"i64", int64(9)},
		{"f32", float32(0.5)},
		{"yes", true},
		{"text", "word"},
		{"texts", []string{"a", ""}},
		{"u16s", []uint16{1, 65535}},
		{"u64s", []uint64{math.MaxUint64}},
		{"bools", []bool{true, false}},
		{"f64s", []float64{1, 2.5}},
		{"none", []int32{}},
	}, nil)
	f := open(t, path)
	ask := map[string]func(string, bool) (any, error){
		"Str":    asker(f.Str, "fallback"),
		"Uint":   asker(f.Uint, 77),
		"Int":    asker(f.Int, -77),
		"Float":  asker(f.Float, 7.7),
		"Bool":   asker(f.Bool, true),
		"Strs":   asker(f.Strs, []string{"x"}),
		"Ints":   asker(f.Ints, []int64{7}),
		"Floats": asker(f.Floats, []float64{7}),
		"Bools":  asker(f.Bools, []bool{true}),
	}
	right := map[string]map[string]any{
		"Str":    {"general.architecture": "test", "text": "word"},
		"Uint":   {"u8": uint64(200), "u64": uint64(math.MaxUint64), "i64": uint64(9)},
		"Int":    {"u8": int64(200), "i32": int64(-7), "i64": int64(9)},
		"Float":  {"u8": 200.0, "i32": -7.0, "u64": float64(math.MaxUint64), "i64": 9.0, "f32": 0.5},
		"Bool":   {"yes": true},
		"Strs":   {"texts": []string{"a", ""}},
		"Ints":   {"u16s": []int64{1, 65535}, "none": []int64{}},
		"Floats": {"f64s": []float64{1, 2.5}},
		"Bools":  {"bools": []bool{true, false}},
	}
	for getter, get := range ask {
		for k := range f.Keys() {
			got, err := get(k.Name, true)
			if want, ok := right[getter][k.Name]; ok {
				require.NoError(t, err, "%s %s", getter, k.Name)
				require.Equal(t, want, got, "%s %s", getter, k.Name)
			} else {
				require.ErrorIs(t, err, gguf.ErrKeyType, "%s %s: a fallback must not hide a wrong type", getter, k.Name)
				require.ErrorContains(t, err, k.Name)
			}
		}
		_, err := get("absent", false)
		require.ErrorIs(t, err, gguf.ErrNoKey, getter)
		got, err := get("absent", true)
		require.NoError(t, err, getter)
		require.NotZero(t, got, "%s must return the fallback", getter)
	}
	require.True(t, f.Has("none"))
	require.False(t, f.Has("absent"))
}

// asker wraps a getter, so that a test can call getters of different types in the same way.
func asker[T any](get func(string, ...T) (T, error), fallback T) func(string, bool) (any, error) {
	return func(key string, withFallback bool) (any, error) {
		if withFallback {
			v, err := get(key, fallback)
			return v, err
		}
		v, err := get(key)
		return v, err
	}
}

func TestKeysOutliveMapping(t *testing.T) {
	f, err := gguf.Open(filepath.Join(models, "stories260K-f16.gguf"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	tokens, err := f.Strs("tokenizer.ggml.tokens")
	require.NoError(t, err)
	require.Len(t, tokens, 512)
}

func TestMissingArchitectureIsEmpty(t *testing.T) {
	f := open(t, write(t, nil, nil))
	require.Empty(t, f.Architecture())
	_, err := f.ArchUint("block_count")
	require.ErrorIs(t, err, gguf.ErrNoKey)
	n, err := f.ArchUint("block_count", 3)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
}

// write writes a file with [gguf.Write] into a folder of the test.
func write(t testing.TB, keys []gguf.KeyValue, tensors []gguf.NewTensor) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	w, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, gguf.Write(w, keys, tensors))
	require.NoError(t, w.Close())
	return path
}
