package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/sdnpu/sdnpu/adapters/jsonfault"
)

// Served holds the measurements of one request that Ollama answered. Times are in
// milliseconds.
type Served struct {
	// Phone is a device profile, or [ThisMachine]. System names the settings. Tokens is
	// the largest number of output tokens.
	Phone  string `json:"phone"`
	System string `json:"system"`
	Task   string `json:"task"`
	ID     string `json:"id"`
	Tokens int    `json:"tokens"`
	Seed   int    `json:"seed"`
	Model  string `json:"model"`
	As     string `json:"as,omitempty"`
	// Clock is the clock of First, Decode and Switching: virtual (the device's own), or
	// else this machine's, as the client measures it.
	Clock string `json:"clock"`
	// Prompt counts all tokens of the prompt, of which Cached were in the KV cache. Passes
	// gave Output tokens after the first one.
	Prompt int `json:"prompt"`
	Cached int `json:"cached"`
	Output int `json:"output"`
	Passes int `json:"passes"`
	// First is the time to the first token, and Decode the time from then to the end.
	// Switching is the part of both in which the NPU waited for loads.
	First     float64 `json:"first_token_ms"`
	Decode    float64 `json:"decode_ms"`
	Switching float64 `json:"switching_ms"`
	// Energy is computed from the power in the device profile, in joules.
	Energy float64 `json:"energy_j,omitempty"`
	// Wall is the time of the request on this machine's clock, and Processor the
	// processor time of the runner. Both include the emulation. Peak is the largest
	// memory of the runner so far, in bytes.
	Wall      float64 `json:"wall_ms"`
	Processor float64 `json:"processor_ms"`
	Peak      int64   `json:"peak_bytes"`
	// Text is the SHA-256 of the answer.
	Text string `json:"text_sha256"`
	// Plan, Widths, Draft and Recipe come from the report of the runner.
	Plan   string `json:"plan"`
	Widths string `json:"widths"`
	Draft  string `json:"draft"`
	Recipe string `json:"recipe"`
}

// ThisMachine stands for the emulator without a device profile.
const ThisMachine = "this-machine"

// ServedKey identifies a request of a run.
type ServedKey struct {
	Phone, System, Task, ID, Model, As string
	Tokens, Seed                       int
}

// Key returns what identifies the request.
func (s *Served) Key() ServedKey {
	return ServedKey{s.Phone, s.System, s.Task, s.ID, s.Model, s.As, s.Tokens, s.Seed}
}

// whole returns the time of the request.
func (s *Served) whole() float64 { return s.First + s.Decode }

// ReadServed parses requests, one per line. An interruption may have left an incomplete
// last line, which is ignored. whole is the length of the complete lines.
func ReadServed(text []byte) (list []Served, whole int, err error) {
	for {
		end := bytes.IndexByte(text[whole:], '\n')
		if end < 0 {
			return list, whole, nil
		}
		var s Served
		err := jsonfault.Unmarshal(text[whole:whole+end], &s)
		if err == nil && (s.System == "" || s.Output < 1 || s.Passes < 0 || !(s.First > 0) || !(s.Decode >= 0)) {
			err = fmt.Errorf("system %q with %d tokens, %d passes, %v ms and %v ms is impossible", s.System, s.Output, s.Passes, s.First, s.Decode)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", len(list)+1, err)
		}
		list, whole = append(list, s), whole+end+1
	}
}

// ServedSum sums up the requests of one system on one phone. Means are per request.
// Gains divide the times of the system off by those of this system, so a larger number
// is better.
type ServedSum struct {
	Phone, System string
	// Task is empty for all tasks together.
	Task     string
	Requests int
	// First is the mean time to the first token, PerToken the decoding time of all
	// requests per token, TokensPerPass the same for tokens and passes, and Whole the mean
	// time of a request in seconds.
	First, PerToken, TokensPerPass, Whole, Switching float64
	// Each Worst is the mean gain of the tenth of the requests that gain least.
	FirstGain, WorstFirst, DecodeGain, WorstDecode, WholeGain, WorstWhole float64
	Energy, Processor                                                     float64
	Peak                                                                  int64
	// Different counts the answers that differ from those of the system off.
	Different int
}

// SumServed sums up by phone and system, in their order: all tasks first, and then each
// task. A prompt counts only if every system of its phone has answered it. off names
// the system that others are compared with.
func SumServed(rows []Served, off string) (list []ServedSum) {
	var phones, tasks []string
	systems := make(map[string][]string) // by phone
	type prompt struct{ phone, task, id string }
	var order []prompt
	found := make(map[prompt]map[string]*Served) // by system
	for i := range rows {
		r := &rows[i]
		p := prompt{r.Phone, r.Task, r.ID}
		if found[p] == nil {
			found[p] = make(map[string]*Served)
			order = append(order, p)
		}
		found[p][r.System] = r
		phones, tasks = appendNew(phones, r.Phone), appendNew(tasks, r.Task)
		systems[r.Phone] = appendNew(systems[r.Phone], r.System)
	}
	for _, phone := range phones {
		for _, task := range append([]string{""}, tasks...) {
			var pairs []map[string]*Served
			for _, p := range order {
				if p.phone == phone && (task == "" || p.task == task) && len(found[p]) == len(systems[phone]) && found[p][off] != nil {
					pairs = append(pairs, found[p])
				}
			}
			for _, system := range systems[phone] {
				if len(pairs) > 0 {
					list = append(list, sumServed(phone, system, task, off, pairs))
				}
			}
		}
	}
	return list
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func sumServed(phone, system, task, off string, prompts []map[string]*Served) ServedSum {
	sum := ServedSum{Phone: phone, System: system, Task: task, Requests: len(prompts)}
	var ours, base Served
	var first, decode, whole []float64 // gains of each request
	for _, p := range prompts {
		s, o := p[system], p[off]
		for total, r := range map[*Served]*Served{&ours: s, &base: o} {
			total.First += r.First
			total.Decode += r.Decode
			total.Output += r.Output - 1 // prompts give the first tokens
			total.Passes += r.Passes
		}
		sum.Switching += s.Switching
		sum.Energy += s.Energy
		sum.Processor += s.Processor
		sum.Peak = max(sum.Peak, s.Peak)
		first, whole = append(first, o.First/s.First), append(whole, o.whole()/s.whole())
		if s.Decode > 0 {
			decode = append(decode, o.Decode/s.Decode)
		}
		if s.Text != o.Text {
			sum.Different++
		}
	}
	n := float64(len(prompts))
	sum.First, sum.Whole = ours.First/n, ours.whole()/n/1000
	sum.PerToken, sum.TokensPerPass = ours.Decode/float64(max(1, ours.Output)), float64(ours.Output)/float64(max(1, ours.Passes))
	sum.Switching, sum.Energy, sum.Processor = sum.Switching/n, sum.Energy/n, sum.Processor/n
	sum.FirstGain, sum.WholeGain = base.First/ours.First, base.whole()/ours.whole()
	if ours.Decode > 0 {
		sum.DecodeGain = base.Decode / ours.Decode
	}
	sum.WorstFirst, sum.WorstDecode, sum.WorstWhole = worstDecile(first), worstDecile(decode), worstDecile(whole)
	return sum
}

// ServedTable prints the sums as a table in Markdown.
func ServedTable(w io.Writer, list []ServedSum) error {
	_, err := fmt.Fprint(w, "| phone | tasks | system | requests | first token, ms | gain; worst tenth | ms per token | gain; worst tenth | tokens per pass | waits for loads, ms |"+
		" whole request, s | gain; worst tenth | energy, J | processor, ms | memory, MiB | other texts |\n"+
		"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range list {
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "| %s | %s | %s | %d | %.0f | %.2f; %.2f | %.1f | %.2f; %.2f | %.2f | %.0f | %.2f | %.2f; %.2f | %.1f | %.0f | %.0f | %d |\n",
			s.Phone, cmp.Or(s.Task, "all"), s.System, s.Requests, s.First, s.FirstGain, s.WorstFirst, s.PerToken, s.DecodeGain, s.WorstDecode, s.TokensPerPass,
			s.Switching, s.Whole, s.WholeGain, s.WorstWhole, s.Energy, s.Processor, float64(s.Peak)/(1<<20), s.Different)
	}
	return err
}
