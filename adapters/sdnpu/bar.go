package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/sdnpu/sdnpu/backend/engine"
)

// lineEvery is how often a long image gets another line without a terminal.
const lineEvery = 10 * time.Second

// barEvery is how often a bar that counts bytes is drawn.
const barEvery = 100 * time.Millisecond

// bar shows the progress of a load: a bar on a terminal, else a line per image
// and one more every lineEvery.
type bar struct {
	w   io.Writer
	bar *progressbar.ProgressBar
	// terminal is whether somebody looks.
	terminal bool
	began    time.Time
	lines    int // of the image that is worked on
}

func newBar(w io.Writer) *bar {
	f, ok := w.(*os.File)
	return &bar{w: w, terminal: ok && term.IsTerminal(int(f.Fd())), began: time.Now()}
}

func (b *bar) step(p engine.Progress) {
	text := fmt.Sprintf("%s (%d of %d)", progressText(p), min(p.Done+1, p.Total), p.Total)
	if b.terminal {
		b.draw(text, p)
		return
	}
	switch {
	case p.Elapsed == 0:
		b.lines = 1
		fmt.Fprintln(b.w, text)
	case p.Elapsed >= time.Duration(b.lines)*lineEvery:
		b.lines++
		fmt.Fprintf(b.w, "%s%s\n", text, b.farther(p))
	}
}

func (b *bar) draw(text string, p engine.Progress) {
	if b.bar == nil {
		b.bar = progressbar.NewOptions64(max(p.Weights, 1), progressbar.OptionSetWriter(b.w), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30), progressbar.OptionShowBytes(true), progressbar.OptionSetPredictTime(true))
	}
	b.bar.Describe(text)
	_ = b.bar.Set64(p.WeightsDone) // a terminal that cannot be written to shows nothing
}

// farther says how much of the weights is done and how long the rest takes at
// this pace.
func (b *bar) farther(p engine.Progress) string {
	if p.Weights == 0 {
		return ""
	}
	took := time.Since(b.began)
	text := fmt.Sprintf(": %s of %s, %v so far", bytesText(p.WeightsDone), bytesText(p.Weights), took.Round(time.Second))
	if p.WeightsDone > 0 {
		left := time.Duration(float64(took) * float64(p.Weights-p.WeightsDone) / float64(p.WeightsDone))
		text += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	return text
}

func (b *bar) close() {
	if b.bar != nil {
		_ = b.bar.Finish()
	}
}
