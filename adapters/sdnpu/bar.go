package main

import (
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/sdnpu/sdnpu/backend/engine"
)

// bar shows the progress of a load: a bar on a terminal, else a line per image.
type bar struct {
	w   io.Writer
	bar *progressbar.ProgressBar
	// terminal is whether somebody looks.
	terminal bool
}

func newBar(w io.Writer) *bar {
	f, ok := w.(*os.File)
	return &bar{w: w, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

func (b *bar) step(p engine.Progress) {
	text := progressText(p)
	if !b.terminal {
		if p.Elapsed == 0 {
			fmt.Fprintf(b.w, "%s (%d of %d)\n", text, p.Done+1, p.Total)
		}
		return
	}
	if b.bar == nil {
		b.bar = progressbar.NewOptions(p.Total, progressbar.OptionSetWriter(b.w), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
	}
	b.bar.Describe(text)
	_ = b.bar.Set(p.Done) // a terminal that cannot be written to shows nothing
}

func (b *bar) close() {
	if b.bar != nil {
		_ = b.bar.Finish()
	}
}
