package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sdnpu/sdnpu/backend/gguf"
)

// quantizeStandIn answers `ollama create`, which sends every GGUF through
// llama-quantize, on hosts that lack it: it checks the file and copies it.
// Changing the type is the original's work.
func quantizeStandIn(ctx context.Context, stdout io.Writer, args []string) error {
	var names []string
	for _, a := range args {
		if !strings.HasPrefix(a, "--") {
			names = append(names, a)
		}
	}
	if len(names) != 3 {
		return fmt.Errorf("llama-quantize stand-in: IN OUT COPY wanted, %q given", args)
	}
	in, out, kind := names[0], names[1], names[2]
	if kind != "COPY" {
		return fmt.Errorf("llama-quantize stand-in: it can only copy; for type %s install Ollama's own llama-quantize", kind)
	}
	f, err := gguf.Open(in)
	if err != nil {
		return err
	}
	defer f.Close()
	if same(in, out) {
		return fmt.Errorf("llama-quantize stand-in: %s is the model that is read: name another file", out)
	}
	from, err := os.Open(in)
	if err != nil {
		return err
	}
	defer from.Close()
	// Ollama holds the output open since before we began and reads the result
	// there: it must stay the same file, so no writing beside it and renaming.
	to, err := os.OpenFile(out, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(untilDone{ctx, to}, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "[   1/   1]")
	return nil
}
