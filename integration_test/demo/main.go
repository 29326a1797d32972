// Command demo shows the whole path: a real, unmodified Ollama starts our program as
// its llama-server, a GGUF runs as static graphs on the emulator, and Ollama's HTTP
// API streams the text.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/ollama"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/integration_test/host"
)

func main() {
	model := flag.String("model", "integration_test/models/stories260K-f16.gguf", "GGUF to run")
	prompt := flag.String("prompt", "", "prompt (default: one that suits the model)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := demo(ctx, *model, *prompt); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, model, prompt string) (err error) {
	template, suggested, err := templateOf(model)
	if err != nil {
		return err
	}
	if prompt == "" {
		prompt = suggested
	}
	b, err := host.NewBuilder(".", os.Stdout)
	if err != nil {
		return err
	}
	server, err := start(ctx, b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()

	step("ollama create demo: FROM the model, ADAPTER that selects the NPU, TEMPLATE")
	file, err := modelfile(ctx, b, model, template)
	if err != nil {
		return err
	}
	if err := server.Create(ctx, "demo", file); err != nil {
		return err
	}
	step("loading it: its graphs are compiled the first time and kept")
	if err := load(ctx, os.Stdout, server); err != nil {
		return err
	}
	var answers []answer
	for _, request := range []struct {
		endpoint string
		body     map[string]any
	}{
		{"/api/generate", map[string]any{"model": "demo", "prompt": prompt, "options": options}},
		{"/api/chat", map[string]any{"model": "demo", "messages": []map[string]string{{"role": "user", "content": prompt}}, "options": options}},
	} {
		step("POST " + request.endpoint + ": " + prompt)
		a, err := ask(ctx, server, request.endpoint, request.body)
		if err != nil {
			return err
		}
		answers = append(answers, a)
	}
	step("report")
	return report(ctx, os.Stdout, server, answers)
}

// options make the text repeatable.
var options = map[string]any{"temperature": 0, "seed": 1, "num_predict": 120, "repeat_penalty": 1.1}

func step(text string) { fmt.Printf("\n── %s\n", text) }

// start builds all parts and starts the server.
func start(ctx context.Context, b host.Builder) (*host.Server, error) {
	step("building the emulator (C) and our program (Go, no cgo)")
	library := os.Getenv("SDNPU_LIBRARY")
	if library == "" {
		var err error
		if library, err = b.Emulator(ctx); err != nil {
			return nil, err
		}
	}
	program, err := b.Program(ctx)
	if err != nil {
		return nil, err
	}
	step("getting a real Ollama")
	h, err := b.Ollama(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Println(h.Executable)
	dir := filepath.Join(b.Dir, "demo")
	executable, err := ollama.Lay(h, program, dir)
	if err != nil {
		return nil, err
	}
	step("ollama serve, with our program as its llama-server")
	server, err := host.Start(ctx, executable, filepath.Join(dir, "home"),
		"SDNPU_LIBRARY="+library, "SDNPU_CACHE="+filepath.Join(dir, "images"))
	if err == nil {
		fmt.Println(server.URL)
	}
	return server, err
}

// templateOf returns a TEMPLATE that matches the GGUF's chat template, and a prompt
// that suits the model.
func templateOf(model string) (template, prompt string, err error) {
	f, err := gguf.OpenKeys(model)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	chat, err := f.Str("tokenizer.chat_template", "")
	if err != nil {
		return "", "", err
	}
	const question = "What is the capital of France? Answer in one sentence."
	switch {
	case strings.Contains(chat, "<|im_start|>"):
		return `{{ if .System }}<|im_start|>system
{{ .System }}<|im_end|>
{{ end }}{{ if .Prompt }}<|im_start|>user
{{ .Prompt }}<|im_end|>
{{ end }}<|im_start|>assistant
{{ .Response }}<|im_end|>
`, question, nil
	case strings.Contains(chat, "<|start_header_id|>"):
		return `{{ if .System }}<|start_header_id|>system<|end_header_id|>

{{ .System }}<|eot_id|>{{ end }}{{ if .Prompt }}<|start_header_id|>user<|end_header_id|>

{{ .Prompt }}<|eot_id|>{{ end }}<|start_header_id|>assistant<|end_header_id|>

{{ .Response }}<|eot_id|>`, question, nil
	}
	return "{{ .Prompt }}", "One day, Tom and Lily went to the park.", nil
}

// modelfile writes the adapter that selects the NPU with the command that a user
// would type.
func modelfile(ctx context.Context, b host.Builder, model, template string) (string, error) {
	model, err := filepath.Abs(model)
	if err != nil {
		return "", err
	}
	adapter := filepath.Join(b.Dir, "demo", "npu.gguf")
	cmd := exec.CommandContext(ctx, filepath.Join(b.Dir, "sdnpu"), "select", model, "--adapter", adapter)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("sdnpu select: %w: %s", err, out)
	}
	return fmt.Sprintf("FROM %s\nADAPTER %s\nTEMPLATE \"\"\"%s\"\"\"\nPARAMETER num_ctx 512\n", model, adapter, template), nil
}
