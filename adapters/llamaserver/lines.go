package llamaserver

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
)

// maxLine bounds a line: the host keeps the last 8 KiB of failure text.
const maxLine = 4 << 10

// Lines writes what the host reads from the output: each line with one write,
// because the host parses writes.
type Lines struct {
	mu sync.Mutex
	w  io.Writer
}

// NewLines returns Lines on w, which is the process's standard error.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Kind is what a buffer is for.
type Kind string

// The kinds of buffer; the host adds up their sizes.
const (
	ModelBuffer   Kind = "model"
	KVBuffer      Kind = "KV"
	ComputeBuffer Kind = "compute"
)

// components are the words before a buffer's line in llama-server's output.
var components = map[Kind]string{
	ModelBuffer:   "load_tensors",
	KVBuffer:      "llama_kv_cache",
	ComputeBuffer: "sched_reserve",
}

// Buffer tells the memory of one kind on one device. Devices named CPU count
// as main memory, any other ("HTP0") as the accelerator's. A second call for
// the same kind and device replaces the first: give the sum.
func (l *Lines) Buffer(device string, kind Kind, sizeBytes int64) {
	l.write(fmt.Sprintf("%s: %s %s buffer size = %.2f MiB",
		components[kind], strings.Join(strings.Fields(device), "-"), kind, float64(sizeBytes)/(1<<20)))
}

// Offloaded tells how many layers run on the accelerator; with all of them
// the host shows the model as wholly there.
func (l *Lines) Offloaded(layers, of int) {
	l.write(fmt.Sprintf("load_tensors: offloaded %d/%d layers to GPU", layers, of))
}

// Device tells which device runs the model, in the library's own words.
func (l *Lines) Device(c backend.Capabilities) {
	l.write(fmt.Sprintf("sdnpu device name=%q provider=%q build=%q soc=%q lane=%s",
		c.Name, c.Provider, c.BuildID, c.SoC, c.Lane))
}

// Warn tells something that is no failure.
func (l *Lines) Warn(text string) { l.write("sdnpu warning " + text) }

// Report tells what a request did, in numbers. outcome is its stop reason, or
// the word for another end. Where the device runs in another's time, clock says
// so; in virtual time that is the clock of what the plan took, and what the
// host's clock measured is called host_.
func (l *Lines) Report(r engine.Report, outcome string) {
	var b strings.Builder
	here := func(name string, d time.Duration) {
		if r.Clock.Virtual {
			name = "host_" + name
		}
		fmt.Fprintf(&b, " %s=%.3f", name, milliseconds(d))
	}
	fmt.Fprintf(&b, "sdnpu report outcome=%s recipe=%s widths=%s blocks=%d",
		outcome, r.Recipe, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(r.Widths)), ","), "[]"), r.Blocks)
	fmt.Fprintf(&b, " prompt=%d cached=%d output=%d steps=%d valid_rows=%d shared_rows=%d padding_rows=%d",
		r.PromptTokens, r.CachedTokens, r.OutputTokens, r.Steps, r.ValidRows, r.SharedRows, r.PaddingRows)
	fmt.Fprintf(&b, " context=%d", r.Context)
	if r.Draft != "" && r.Draft != "off" { // where none was drafted, too: that is worth knowing
		fmt.Fprintf(&b, " draft=%s accept_length=%.3f decode_steps=%d drafted_rows=%d accepted_rows=%d wasted_rows=%d",
			r.Draft, r.AcceptLength(), r.DecodeSteps, r.DraftedRows, r.AcceptedRows, r.WastedRows)
		here("drafting_ms", r.Drafting)
	}
	if r.Lossless.Exact {
		fmt.Fprintf(&b, " exact=true exact_rows=%d", r.Lossless.Width)
	}
	if f := r.Lossless.Flips; f != nil {
		fmt.Fprintf(&b, " flips_per_1000=%.3f flips_positions=%d", f.PerThousand(), f.Positions)
	}
	if c := r.Calibration; c != (engine.Calibration{}) {
		fmt.Fprintf(&b, " calibrated_rows=%d", c.Rows)
		here("calibration_cost_ms", c.Cost)
		here("calibration_gain_ms", c.Gain)
	}
	if r.Clock != (engine.Clock{}) {
		fmt.Fprintf(&b, " clock=%s paced=%q", r.Clock, oneLine(r.Clock.Paced))
	}
	if p := r.Plan; p != nil {
		t := &p.Timeline
		fmt.Fprintf(&b, " plan=%s spare=%t switches=%d switch_end_ms=%.3f exposed_ms=%.3f stall_ms=%.3f loaded_bytes=%d",
			p.Name, p.Spare, p.Switches, t.SwitchEndMs, max(0, t.ExposedMs), t.StallMs, t.IOBytes)
		if p.Reason != "" {
			fmt.Fprintf(&b, " plan_reason=%q", oneLine(p.Reason))
		}
		if p.Failed != "" {
			fmt.Fprintf(&b, " plan_failed=%q", oneLine(p.Failed))
		}
	} else if r.Residency != "" {
		fmt.Fprintf(&b, " plan=%s", r.Residency)
	}
	for _, g := range r.Growths {
		fmt.Fprintf(&b, " grown=%d-%d", g.From, g.To)
		here("grown_ms", g.Took)
		fmt.Fprintf(&b, " grown_peak_bytes=%d", g.PeakBytes)
	}
	if r.Truncated {
		fmt.Fprintf(&b, " truncated=true shifts=%d dropped=%d", r.Shifts, r.DroppedTokens)
	}
	ops := laneOps(r)
	for _, lane := range slices.Sorted(maps.Keys(ops)) {
		fmt.Fprintf(&b, " %s=%d", lane, ops[lane])
	}
	here("prefill_ms", r.Prefill)
	here("ttft_ms", r.FirstToken)
	here("decode_ms", r.Decode)
	if r.Processor > 0 { // of the whole process: that of requests beside it, too
		fmt.Fprintf(&b, " cpu_ms=%.3f cpu_ms_per_token=%.3f", milliseconds(r.Processor), milliseconds(r.ProcessorPerToken()))
	}
	l.write(b.String())
}

// Failure writes the one kind of line whose text the host shows to people: at
// a load before the process exits, in a stream before the connection breaks.
func (l *Lines) Failure(err error) {
	l.put("error: " + oneLine(err.Error()))
}

// Write passes a logger's record on with the failure words broken. It lets
// Lines stand behind a slog handler; it never fails, for a log has no reader
// to tell.
func (l *Lines) Write(record []byte) (int, error) {
	l.write(string(record))
	return len(record), nil
}

// write puts a line that reports no failure.
func (l *Lines) write(line string) { l.put(harmless(oneLine(line))) }

func (l *Lines) put(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, line+"\n")
}

// oneLine joins the lines of text and cuts what is too long.
func oneLine(text string) string {
	line := strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "")
	}
	return line
}

// failureWords make the host keep a line as the text of a failure: the first
// by exact spelling, the others in any case. It clears that text when the
// model is ready and never again, so a harmless line with one of them would be
// glued to some later failure.
var failureWords = []string{
	"error:", "panic:", "fatal error:", "GGML_ASSERT", "error loading model", "llama_init_from_model:",
	"CUDA error", "ROCm error", "cudaMalloc failed", "mlx:", `"ERR"`, "signal arrived during cgo execution",
	"Deepseek2 does not support K-shift",

	"out of memory", "out of device memory", "failed to allocate", "allocation failed", "not enough memory",
	"insufficient memory", "hipMalloc failed", "vk_error_out_of_device_memory", "erroroutofmemory",
}

// harmless breaks each failure word after its first letter.
func harmless(line string) string {
	for _, word := range failureWords {
		for {
			i := indexFold(line, word)
			if i < 0 {
				break
			}
			line = line[:i+1] + "-" + line[i+1:]
		}
	}
	return line
}

// indexFold is strings.Index without regard to the case of ASCII letters.
func indexFold(text, word string) int {
	for i := 0; i+len(word) <= len(text); i++ {
		if strings.EqualFold(text[i:i+len(word)], word) {
			return i
		}
	}
	return -1
}
