package enable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/enable"
	"github.com/sdnpu/sdnpu/backend/gguf"
)

func TestVariantIsMadeListedAndRemoved(t *testing.T) {
	f := newFake(t)
	before, o := f.state(), f.ollama()
	prepared := 0
	r := f.request(selecting(t, gguf.KeyValue{Name: "sdnpu.plan", Value: "resident"}))
	r.Prepare = func(_ context.Context, m enable.Model, adapter string) error {
		prepared++
		require.Equal(t, before, f.state(), "nothing is created before the model is ready")
		content, err := os.ReadFile(adapter)
		require.NoError(t, err)
		want, err := r.Adapter(m.Path)
		require.NoError(t, err)
		require.Equal(t, want, content)
		return nil
	}
	name, err := o.Enable(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, "base:1b-npu", name)
	require.Equal(t, 1, prepared)
	require.Equal(t, []string{"base:1b-npu-unfinished"}, f.asked)
	list, err := o.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.False(t, list[0].Variant)
	require.True(t, list[1].Variant)
	require.Equal(t, "base:1b", list[1].Base)
	require.Equal(t, []string{"plan=resident"}, list[1].Settings)

	_, err = o.Enable(t.Context(), f.request(selecting(t)))
	require.NoError(t, err, "other settings replace the variant")
	name, err = o.Disable(t.Context(), "base:1b")
	require.NoError(t, err)
	require.Equal(t, "base:1b-npu", name)
	require.Equal(t, before, f.state(), "also the adapter of the replaced variant is gone")
	_, err = o.Disable(t.Context(), "base:1b")
	require.ErrorIs(t, err, enable.ErrNotEnabled)
}

// TestInterruptedCallLeavesNothing stops the server after each request of a call, so
// that the call cannot undo anything, as if the process had been killed. The server
// either loses the request after the last answered one completely, or carries out that
// request and loses only the answer.
func TestInterruptedCallLeavesNothing(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		start := func() (f *fake, before string) {
			f = newFake(t)
			before = f.state()
			if replaced {
				_, err := f.ollama().Enable(t.Context(), f.request(selecting(t, gguf.KeyValue{Name: "sdnpu.blocks", Value: int32(2)})))
				require.NoError(t, err)
			}
			f.heal()
			return f, before
		}
		count, _ := start()
		_, err := count.ollama().Enable(t.Context(), count.request(selecting(t)))
		require.NoError(t, err)
		require.Greater(t, count.requests, 6)
		for limit := 1; limit < count.requests; limit++ {
			for _, act := range []bool{false, true} {
				what := fmt.Sprintf("replaced %v, limit %d, acted %v", replaced, limit, act)
				f, before := start()
				f.limit, f.act = limit, act
				_, err := f.ollama().Enable(t.Context(), f.request(selecting(t)))
				require.Error(t, err, what)
				require.False(t, f.has("base:1b-npu") && len(f.asked) == 0, "%s: a variant that has not answered has its name", what)
				require.True(t, !replaced || f.has("base:1b-npu"), "%s: the earlier variant is lost", what)
				f.heal()
				_, err = f.ollama().Disable(t.Context(), "base:1b")
				require.True(t, err == nil || !replaced && errors.Is(err, enable.ErrNotEnabled), "%s: %v", what, err)
				require.Equal(t, before, f.state(), what)
				_, err = f.ollama().Enable(t.Context(), f.request(selecting(t)))
				require.NoError(t, err, what)
			}
		}
	}
}

func TestFailedStepsAreUndoneAtOnce(t *testing.T) {
	f := newFake(t)
	before := f.state()
	for _, tt := range []struct {
		status int
		want   error
	}{{http.StatusNotImplemented, enable.ErrUnsuitable}, {http.StatusInternalServerError, nil}} {
		f.refusal = tt.status
		_, err := f.ollama().Enable(t.Context(), f.request(selecting(t)))
		require.Error(t, err)
		if tt.want != nil {
			require.ErrorIs(t, err, tt.want)
		}
		require.Equal(t, before, f.state())
	}
	f.refusal = 0
	ctx, cancel := context.WithCancel(t.Context())
	r := f.request(selecting(t))
	r.Prepare = func(context.Context, enable.Model, string) error { cancel(); return ctx.Err() }
	_, err := f.ollama().Enable(ctx, r)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, f.state())
}

func TestUnsuitableModelsAreRefusedByName(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		model      func(f *fake) fakeModel
	}{
		{"remote", "the model runs on https://ollama.com", func(f *fake) fakeModel { return fakeModel{remote: "https://ollama.com"} }},
		{"embedding", "the model computes no text", func(f *fake) fakeModel { return fakeModel{capabilities: "embedding"} }},
		{"no file", "no file of its weights", func(f *fake) fakeModel { return fakeModel{} }},
		{"cpu", "num_gpu 0", func(f *fake) fakeModel {
			return fakeModel{weights: f.models["base:1b"].weights, parameters: "PARAMETER num_gpu 0\n"}
		}},
		{"lora", "LoRA", func(f *fake) fakeModel {
			return fakeModel{weights: f.models["base:1b"].weights, adapter: f.store(keys(t, "llama"))}
		}},
		{"variant", "NPU variant already", func(f *fake) fakeModel {
			return fakeModel{weights: f.models["base:1b"].weights, adapter: f.store(selecting(t))}
		}},
		{"own keys", "selects the NPU already", func(f *fake) fakeModel { return fakeModel{weights: f.store(selecting(t))} }},
		{"elsewhere", "does not exist on this machine", func(f *fake) fakeModel { return fakeModel{weights: "sha256:0"} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.models["odd:1b"] = tt.model(f)
			before, r := f.state(), f.request(selecting(t))
			r.Model = "odd:1b"
			_, err := f.ollama().Enable(t.Context(), r)
			require.ErrorIs(t, err, enable.ErrUnsuitable)
			require.ErrorContains(t, err, "odd:1b: ")
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, before, f.state())
		})
	}
	t.Run("unknown architecture", func(t *testing.T) {
		f := newFake(t)
		before, r := f.state(), f.request(nil)
		r.Adapter = func(string) ([]byte, error) { return nil, fmt.Errorf("%w: architecture xyz", enable.ErrUnsuitable) }
		_, err := f.ollama().Enable(t.Context(), r)
		require.ErrorIs(t, err, enable.ErrUnsuitable)
		require.ErrorContains(t, err, "base:1b: ")
		require.Equal(t, before, f.state())
	})
}

func TestJournalLeavesNoFile(t *testing.T) {
	f := newFake(t)
	r, left := f.request(selecting(t)), ""
	r.Prepare = func(_ context.Context, _ enable.Model, adapter string) error {
		left = adapter
		require.Equal(t, f.journal, filepath.Dir(adapter), "where the next call finds it")
		return nil
	}
	_, err := f.ollama().Enable(t.Context(), r)
	require.NoError(t, err)
	require.NoFileExists(t, left)
	require.NoDirExists(t, f.journal)

	require.NoError(t, os.Mkdir(f.journal, 0o700))
	require.NoError(t, os.WriteFile(left, nil, 0o600), "as after a kill")
	_, err = f.ollama().Disable(t.Context(), "base:1b")
	require.NoError(t, err)
	require.NoDirExists(t, f.journal)
}

func TestNamesOfOtherModelsAreKept(t *testing.T) {
	f := newFake(t)
	f.models["other:latest"] = fakeModel{weights: f.store(keys(t, "qwen2"))}
	r := f.request(selecting(t))
	r.Name = "other"
	_, err := f.ollama().Enable(t.Context(), r)
	require.ErrorIs(t, err, enable.ErrNameTaken)
	r.Name = "base:1b"
	_, err = f.ollama().Enable(t.Context(), r)
	require.ErrorIs(t, err, enable.ErrNameTaken)
	r.Name, r.Model = "", "absent"
	_, err = f.ollama().Enable(t.Context(), r)
	require.ErrorIs(t, err, enable.ErrNoModel)
}

func TestWeightsKeepTheirLastName(t *testing.T) {
	f := newFake(t)
	name, err := f.ollama().Enable(t.Context(), f.request(selecting(t)))
	require.NoError(t, err)
	delete(f.models, "base:1b")
	before := f.state()
	_, err = f.ollama().Disable(t.Context(), name)
	require.ErrorIs(t, err, enable.ErrLastName)
	require.Equal(t, before, f.state())
}

func TestCallsDoNotOverlap(t *testing.T) {
	f := newFake(t)
	r := f.request(selecting(t))
	r.Prepare = func(context.Context, enable.Model, string) error {
		_, err := f.ollama().Disable(t.Context(), "base:1b")
		require.ErrorIs(t, err, enable.ErrBusy)
		return nil
	}
	_, err := f.ollama().Enable(t.Context(), r)
	require.NoError(t, err)
}

func TestAddressesFollowOllamasRules(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "http://127.0.0.1:11434",
		"0.0.0.0":                 "http://127.0.0.1:11434",
		"[::]:80":                 "http://[::1]:80",
		":1234":                   "http://127.0.0.1:1234",
		"example.com":             "http://example.com:11434",
		"https://example.com":     "https://example.com:443",
		"http://example.com":      "http://example.com:80",
		" http://10.0.0.1:9/api/": "http://10.0.0.1:9/api",
		"::1":                     "http://[::1]:11434",
	} {
		u, err := enable.ParseAddress(text)
		require.NoError(t, err, text)
		require.Equal(t, want, u.String(), text)
	}
	for _, text := range []string{"ftp://a", "a:b:c", "host:99999", "host:x", "user@host:1"} {
		_, err := enable.ParseAddress(text)
		require.Error(t, err, text)
	}
}

func TestVariantNames(t *testing.T) {
	for name, want := range map[string]string{
		"qwen3:1.7b":         "qwen3:1.7b-npu",
		"llama3.2":           "llama3.2:npu",
		"llama3.2:latest":    "llama3.2:npu",
		"host:5000/me/model": "host:5000/me/model:npu",
	} {
		require.Equal(t, want, enable.VariantName(name))
	}
}
