package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/sdnpu/sdnpu/integration_test/host"
)

// answer is one answer as the client received it, with our program's report.
type answer struct {
	endpoint string
	first    time.Duration
	last     host.Event
	logged   host.Fields
}

// load makes Ollama load the model and prints our program's progress.
func load(ctx context.Context, w io.Writer, server *host.Server) error {
	const patience = 5 * time.Second
	offset, begin := len(server.Log()), time.Now()
	loaded := make(chan error, 1)
	go func() {
		loaded <- server.Call(ctx, http.MethodPost, "/api/generate", map[string]string{"model": "demo"}, nil)
	}()
	var told time.Time
	for shown := ""; ; {
		if lines := host.Lines(server.Log()[offset:], host.LoadingLine); len(lines) > 0 {
			l := lines[len(lines)-1]
			what := fmt.Sprintf("%s of %s done, %s", l["done"], l["total"], l["step"])
			if l["total"] != "0" && (what != shown || time.Since(told) > patience) {
				fmt.Fprintf(w, "  %5s s  %s\n", l["seconds"], what)
				shown, told = what, time.Now()
			}
		}
		select {
		case err := <-loaded:
			fmt.Fprintf(w, "loaded after %.1f s\n", time.Since(begin).Seconds())
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ask streams an answer to the terminal and measures it.
func ask(ctx context.Context, server *host.Server, endpoint string, request map[string]any) (answer, error) {
	a := answer{endpoint: endpoint}
	offset, begin := len(server.Log()), time.Now()
	var err error
	a.last, err = server.Stream(ctx, endpoint, request, func(e host.Event) {
		if a.first == 0 && e.Text() != "" {
			a.first = time.Since(begin)
		}
		fmt.Print(e.Text())
	})
	fmt.Println()
	if err != nil {
		return a, err
	}
	lines, err := server.WaitLines(ctx, offset, host.ReportLine, 1)
	if err != nil {
		return a, err
	}
	a.logged = lines[0]
	return a, nil
}

// report prints the times of the answers and the operators per lane.
func report(ctx context.Context, w io.Writer, server *host.Server, answers []answer) error {
	const row = "%-14s %8s %8s %8s %10s %10s %11s %11s\n"
	fmt.Fprintf(w, row, "", "prompt", "of that", "answer", "first", "", "operators", "operators")
	fmt.Fprintf(w, row, "request", "tokens", "reused", "tokens", "token", "tokens/s", "on the NPU", "on the CPU")
	for _, a := range answers {
		e, speed := a.last, "-"
		if e.EvalDuration > 0 {
			speed = fmt.Sprintf("%.1f", float64(e.EvalCount)/time.Duration(e.EvalDuration).Seconds())
		}
		fmt.Fprintf(w, row, a.endpoint, strconv.Itoa(e.PromptEvalCount), a.logged["cached"], strconv.Itoa(e.EvalCount),
			fmt.Sprintf("%d ms", a.first.Milliseconds()), speed, a.logged["npu_ops"], a.logged["cpu_ops"])
	}
	devices, err := server.WaitLines(ctx, 0, host.DeviceLine, 1)
	if err != nil {
		return err
	}
	d := devices[len(devices)-1]
	fmt.Fprintf(w, "\nlibrary    %s\nprovider   %s\nbuild      %s, for SoC %s\nlog        %s\n", d["name"], d["provider"], d["build"], d["soc"], server.LogPath())
	if os.Getenv("SDNPU_LIBRARY") == "" {
		fmt.Fprintln(w, "\nThe emulator computes on this machine's CPU what the NPU would: the text and the\n"+
			"operator counts are real, the times say nothing about a device.")
	}
	return nil
}
