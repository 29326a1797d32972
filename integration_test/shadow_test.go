package integration_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/integration_test/host"
)

// TestShadowRecipeServesOllama answers through Ollama in the recipe w8a8-shadow. Whatever
// happens to a request, its text is the one that the recipe gives without disturbance.
func TestShadowRecipeServesOllama(t *testing.T) {
	s := sharedServer(t)
	file := modelFile(t, "stories260K-f16.gguf")
	r := references(t, "f16")[2]
	recipe := func(name string, set ...string) string {
		create(t, s, name, file, adapter(t, t.TempDir(), file, append(set, "recipe=w8a8-shadow")...))
		return name
	}
	calm := recipe("shadow", "context=fixed", "draft=off")
	length := len(r.IDs)
	want := ask(t, s, "/api/generate", generate(calm, r.Prompt, greedy(length)))
	require.Equal(t, "w8a8-shadow", want.report["recipe"])
	require.Equal(t, length, want.last.EvalCount)
	require.Zero(t, want.count(t, "cpu_ops"), "shadows run on the NPU")
	same := func(t *testing.T, a said) {
		t.Helper()
		require.Equal(t, want.text, a.text)
		require.Equal(t, "w8a8-shadow", a.report["recipe"])
	}

	t.Run("the text starts like that of floats", func(t *testing.T) {
		require.Equal(t, r.answer()[:20], want.text[:20])
	})
	t.Run("drafts", func(t *testing.T) {
		same(t, ask(t, s, "/api/generate", generate(recipe("shadow-drafts", "draft=default"), r.Prompt, greedy(length))))
	})
	t.Run("growth of the context", func(t *testing.T) {
		a := ask(t, s, "/api/generate", generate(recipe("shadow-growing", "context=64"), r.Prompt, greedy(length)))
		same(t, a)
		require.Greater(t, a.count(t, "context"), 64)
	})
	t.Run("shift of the context", func(t *testing.T) {
		const context, wanted = 64, 150
		options := greedy(wanted).with(body{"num_ctx": context})
		place := context - len(r.PromptIDs)
		until := ask(t, s, "/api/generate", generate(calm, r.Prompt, options.with(body{"num_predict": place})))
		a := ask(t, s, "/api/chat", chat(calm, r.Prompt, options))
		require.Equal(t, wanted, a.last.EvalCount)
		require.Equal(t, until.text, a.text[:len(until.text)])
		require.GreaterOrEqual(t, a.count(t, "shifts"), 3)
	})
	t.Run("cancel", func(t *testing.T) {
		report := reported(t, s, func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			pieces := 0
			_, err := s.Stream(ctx, "/api/generate", generate(calm, r.Prompt, greedy(endless)), func(host.Event) {
				if pieces++; pieces == 3 {
					cancel()
				}
			})
			require.ErrorIs(t, err, context.Canceled)
		})
		require.Equal(t, "cancelled", report["outcome"])
		same(t, ask(t, s, "/api/generate", generate(calm, r.Prompt, greedy(length))))
	})
}

// TestShadowRecipeServesFourClients sends four requests at a time, with two different prompts. Rows
// of several requests share passes, and each text is the one that a single client gets.
func TestShadowRecipeServesFourClients(t *testing.T) {
	s := server(t, "OLLAMA_NUM_PARALLEL=4")
	file := modelFile(t, "stories260K-f16.gguf")
	create(t, s, "shadow", file, adapter(t, t.TempDir(), file, "recipe=w8a8-shadow"))
	var requests []body
	var want []string
	for _, i := range []int{1, 2} {
		requests = append(requests, generate("shadow", references(t, "f16")[i].Prompt, greedy(60)))
		want = append(want, ask(t, s, "/api/generate", requests[len(requests)-1]).text)
	}
	const rounds, clients = 3, 4
	var wait sync.WaitGroup
	errs := make(chan error, clients)
	for c := range clients {
		wait.Go(func() {
			for round := range rounds {
				text, i := "", (c+round)%len(requests)
				_, err := s.Stream(t.Context(), "/api/generate", requests[i], func(e host.Event) { text += e.Text() })
				if err == nil && text != want[i] {
					err = fmt.Errorf("client %d, round %d: %q: want %q", c, round, text, want[i])
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// TestShadowRecipeOutlivesARestartOfTheDSP restarts the DSP during the prompt and during the
// answer of a request. The text does not change.
func TestShadowRecipeOutlivesARestartOfTheDSP(t *testing.T) {
	file := modelFile(t, "stories260K-f16.gguf")
	r := references(t, "f16")[3]
	var want string
	for _, fault := range []string{"", "fail_execute=1007@1", "fail_execute=1007@15"} {
		env := []string{"SDNPU_DRAFT=off"}
		if fault != "" {
			env = append(env, "SDNPU_EMULATOR="+fault)
		}
		s := server(t, env...)
		create(t, s, "shadow", file, adapter(t, t.TempDir(), file, "recipe=w8a8-shadow"))
		a := ask(t, s, "/api/generate", generate("shadow", r.Prompt, greedy(40)))
		require.Equal(t, 40, a.last.EvalCount)
		require.Equal(t, "w8a8-shadow", a.report["recipe"])
		if fault == "" {
			want = a.text
			continue
		}
		require.Equal(t, want, a.text, fault)
		require.Contains(t, s.Log(), "all graphs were lost, and have been loaded again", fault)
	}
}

// TestShadowsOnTheCPUServeOllama answers through Ollama with sdnpu.shadow=cpu, where the CPU
// multiplies all outliers. The prompt has several chunks, whose subgraphs the engine may run out of
// order. The text is the one that they give in order, also after a request that was cancelled.
func TestShadowsOnTheCPUServeOllama(t *testing.T) {
	s := sharedServer(t)
	file := modelFile(t, "stories260K-f16.gguf")
	r := references(t, "f16")[2]
	// cpu creates a model with the given graph widths.
	cpu := func(name, rows string) string {
		set := []string{"rows=" + rows}
		create(t, s, name, file, adapter(t, t.TempDir(), file, append(set, "recipe=w8a8-shadow", "shadow=cpu", "draft=off")...))
		return name
	}
	const length = 24
	prompt := strings.Repeat(r.Prompt+" ", 4)
	inOrder := ask(t, s, "/api/generate", generate(cpu("cpu-in-order", "128,1"), prompt, greedy(length)))
	require.Empty(t, inOrder.report["chunks"], "the prompt ran in order")
	chunked := cpu("cpu-chunks", "8,1")
	same := func(fresh bool) {
		t.Helper()
		a := ask(t, s, "/api/generate", generate(chunked, prompt, greedy(length)))
		require.Equal(t, inOrder.text, a.text)
		require.Equal(t, length, a.last.EvalCount)
		require.Equal(t, "w8a8-shadow+cpu", a.report["recipe"])
		if fresh {
			require.Greater(t, a.count(t, "chunks"), 1)
			t.Log("order of the chunks:", a.report["chunks_order"])
		}
		took, err := a.report.Number("shadow_cpu_ms")
		require.NoError(t, err)
		require.Positive(t, took)
		share, err := a.report.Number("shadow_share")
		require.NoError(t, err)
		require.Positive(t, share)
		require.Less(t, share, 0.5, "the NPU makes most of the multiplications")
	}
	same(true)
	report := reported(t, s, func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		pieces := 0
		_, err := s.Stream(ctx, "/api/generate", generate(chunked, r.Prompt, greedy(endless)), func(host.Event) {
			if pieces++; pieces == 3 {
				cancel()
			}
		})
		require.ErrorIs(t, err, context.Canceled)
	})
	require.Equal(t, "cancelled", report["outcome"])
	same(false) // the KV cache may hold the start of the prompt
}
