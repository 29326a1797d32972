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

// bar shows the progress of a load: a bar on a terminal, else a line for each
// image that is done, which tells a compiled one from one of the cache, and
// before it one after a second and every lineEvery from then on.
type bar struct {
	w   io.Writer
	bar *progressbar.ProgressBar
	// terminal is whether somebody looks.
	terminal bool
	began    time.Time
	lines    int // of the image that is worked on
	done     int // images that have their line
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
	switch images := p.Graph != calibrating && p.Graph != comparing; {
	case !images:
		if p.Done < p.Total { // the next one of so many texts
			fmt.Fprintln(b.w, text)
		}
	case p.Elapsed == 0: // whether it has to be compiled is not known yet
		b.lines, b.done = 0, p.Done
	case p.Done > b.done:
		b.done = p.Done
		fmt.Fprintf(b.w, "%s (%d of %d)\n", doneText(p), p.Done, p.Total)
	case p.Done == b.done && p.Elapsed > time.Duration(b.lines)*lineEvery:
		b.lines++
		fmt.Fprintf(b.w, "%s%s\n", text, b.farther(p))
	}
}

// doneText says where an image came from, and what it took.
func doneText(p engine.Progress) string {
	if p.Cached {
		return "loaded " + p.Graph + ", compiled before"
	}
	return fmt.Sprintf("compiled %s in %v", p.Graph, p.Elapsed.Round(time.Millisecond))
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
