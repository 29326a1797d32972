package client

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/llm"
	"github.com/ollama/ollama/ml"
	"github.com/stretchr/testify/require"
)

const models = "../models"

// story is one reference generation of models/expected.json.
type story struct {
	Prompt    string `json:"prompt"`
	PromptIDs []int  `json:"prompt_ids"`
	GreedyIDs []int  `json:"greedy_ids"`
	Text      string `json:"greedy_text"` // prompt and continuation
}

func stories(t *testing.T, model string) []story {
	raw, err := os.ReadFile(filepath.Join(models, "expected.json"))
	require.NoError(t, err)
	var all map[string]struct{ Generations []story }
	require.NoError(t, json.Unmarshal(raw, &all))
	require.NotEmpty(t, all[model].Generations)
	return all[model].Generations
}

func run(t *testing.T, name string, args ...string) string {
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, args, out)
	return string(out)
}

// install builds the program and puts it where package llm looks for it: in
// build/lib/ollama of the working folder. It returns a selected model.
func install(t *testing.T) (model string) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	source, err := filepath.Abs(filepath.Join(models, "stories260K-f16.gguf"))
	require.NoError(t, err)
	work := t.TempDir()
	program := filepath.Join(work, "build", "lib", "ollama", "llama-server")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./adapters/sdnpu")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	command := filepath.Join(work, "sdnpu")
	require.NoError(t, os.Link(program, command))
	model = filepath.Join(work, "selected.gguf")
	run(t, command, "select", source, "-o", model)
	t.Chdir(work)
	t.Setenv("SDNPU_LIBRARY", "emulator")
	t.Setenv("SDNPU_CACHE", filepath.Join(work, "cache"))
	return model
}

// start loads a model as Ollama's scheduler does.
func start(t *testing.T, model string) llm.LlamaServer {
	f, err := llm.LoadModel(model, 0)
	require.NoError(t, err)
	options := api.DefaultOptions()
	options.NumCtx = 512
	server, err := llm.NewLlamaServer(ml.SystemInfo{}, nil, model, f, nil, nil, options, 1, llm.LlamaServerConfig{DisableJinja: true, ContextShift: true})
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	_, err = server.Load(t.Context(), ml.SystemInfo{}, nil, false)
	require.NoError(t, err)
	require.NoError(t, server.WaitUntilRunning(t.Context()))
	return server
}

func greedy(tokens int) *api.Options {
	o := api.DefaultOptions()
	o.Temperature, o.RepeatPenalty, o.NumPredict = 0, 1, tokens
	return &o
}

func complete(t *testing.T, ctx context.Context, server llm.LlamaServer, prompt string, o *api.Options) (string, []llm.CompletionResponse, error) {
	var text strings.Builder
	var all []llm.CompletionResponse
	err := server.Completion(ctx, llm.CompletionRequest{Prompt: prompt, Options: o, Shift: true}, func(r llm.CompletionResponse) {
		text.WriteString(r.Content)
		all = append(all, r)
	})
	return text.String(), all, err
}

func TestOllamasClientCodeGetsTheReferenceText(t *testing.T) {
	server := start(t, install(t))
	for _, s := range stories(t, "f16") {
		if s.Prompt == "" {
			continue // Ollama sends no empty prompts
		}
		ids, err := server.Tokenize(t.Context(), s.Prompt)
		require.NoError(t, err)
		require.Equal(t, s.PromptIDs[1:], ids, "Ollama adds no BOS here")
		back, err := server.Detokenize(t.Context(), ids)
		require.NoError(t, err)
		require.Equal(t, s.Prompt, strings.TrimPrefix(back, " "))

		text, all, err := complete(t, t.Context(), server, s.Prompt, greedy(len(s.GreedyIDs)))
		require.NoError(t, err)
		require.Equal(t, s.Text, s.Prompt+text)
		last := all[len(all)-1]
		require.True(t, last.Done)
		require.Equal(t, len(s.PromptIDs), last.PromptEvalCount)
		require.Positive(t, last.EvalCount)
		require.Positive(t, last.EvalDuration)
	}
	total, vram := server.MemorySize()
	require.Positive(t, total)
	require.Equal(t, total, vram, "every buffer is the NPU's")
	require.NoError(t, server.Ping(t.Context()))
}

func TestCancelledRequestLeavesTheRunnerReady(t *testing.T) {
	server := start(t, install(t))
	ctx, cancel := context.WithCancel(t.Context())
	pieces := 0
	err := server.Completion(ctx, llm.CompletionRequest{Prompt: "Once upon a time", Options: greedy(400), Shift: true}, func(llm.CompletionResponse) {
		if pieces++; pieces == 3 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	text, _, err := complete(t, t.Context(), server, "Once upon a time", greedy(20))
	require.NoError(t, err)
	require.NotEmpty(t, text)
	require.False(t, server.HasExited())
}

func TestFormatIsRefusedAndNotIgnored(t *testing.T) {
	server := start(t, install(t))
	err := server.Completion(t.Context(), llm.CompletionRequest{
		Prompt: "Once upon a time", Format: json.RawMessage(`"json"`), Options: greedy(20), Shift: true,
	}, func(llm.CompletionResponse) {})
	require.ErrorContains(t, err, "not supported")
}

func TestClosedRunnerIsGone(t *testing.T) {
	server := start(t, install(t))
	pid := server.Pid()
	require.NoError(t, server.Close())
	deadline := time.Now().Add(10 * time.Second)
	for alive(pid) {
		require.True(t, time.Now().Before(deadline), "process %d is still there", pid)
		runtime.Gosched()
	}
}

func alive(pid int) bool {
	_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	return err == nil
}
