package contact

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sdnpu/sdnpu/graphswap"
)

// Schema names the format and its version.
const Schema = "sdnpu-first-contact/1"

// Report holds the results of all steps. The result of a failed step is null.
// Times are milliseconds; a GB is 10^9 bytes.
type Report struct {
	Schema  string `json:"schema"`
	Made    string `json:"made"`    // RFC 3339, UTC
	Program string `json:"program"` // this program's version
	Host    Host   `json:"host"`
	Model   Model  `json:"model"`
	// Subject states in one sentence what was measured.
	Subject string   `json:"subject"`
	Device  *Device  `json:"device"`
	Steps   []Step   `json:"steps"`
	Tokens  *Tokens  `json:"tokens"`
	Commit  *Commit  `json:"commit"`
	Copies  []Copy   `json:"copies"`
	Graphs  *Graphs  `json:"graphs"`
	Kept    string   `json:"kept"` // file of the profile, empty if it was not stored
	Profile *Profile `json:"profile"`
}

// Profile is a device profile in the format of its files.
type Profile = graphswap.Profile

// Host is the machine that the program runs on.
type Host struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
}

// Model is the model that ran.
type Model struct {
	Name    string `json:"name"`
	Digest  string `json:"digest"`
	Recipe  string `json:"recipe"`
	Layers  int    `json:"layers"`
	Hidden  int    `json:"hidden"`
	Vocab   int    `json:"vocab"`
	Context int    `json:"context"`
}

// Device holds the device's capabilities.
type Device struct {
	Name            string `json:"name"`
	Lane            string `json:"lane"`
	Provider        string `json:"provider"`
	BuildID         string `json:"build_id"`
	SoC             string `json:"soc"`
	SharesConstants bool   `json:"shares_constants"`
	SwapsGraphs     bool   `json:"swaps_graphs"`
	Fingerprint     string `json:"fingerprint"`
}

// Step is the outcome of one step.
type Step struct {
	Name   string  `json:"name"`
	OK     bool    `json:"ok"`
	TookMs float64 `json:"took_ms"`
	Error  string  `json:"error,omitempty"`
}

// Tokens compares greedy texts token by token, each up to its first difference.
type Tokens struct {
	// Reference is "recorded" or "float device".
	Reference string  `json:"reference"`
	LoadMs    float64 `json:"load_ms"` // loading all graphs, and compiling those that the cache lacked
	Tokens    int     `json:"tokens"`
	Equal     int     `json:"equal"`
	Texts     []Text  `json:"texts"`
}

// Text is one text of Tokens.
type Text struct {
	PromptTokens int         `json:"prompt_tokens"`
	Tokens       int         `json:"tokens"` // tokens of the reference
	Equal        int         `json:"equal"`  // tokens before the first difference
	PrefillMs    float64     `json:"prefill_ms"`
	DecodeMs     float64     `json:"decode_ms"`
	Different    *Difference `json:"first_difference,omitempty"`
}

// Difference is a token on which the device and the reference disagree.
type Difference struct {
	Want int32 `json:"want"`
	Got  int32 `json:"got"`
	// Margin is the device's log-probability of its own token minus its log-probability of the
	// reference's token. It is null if the reference's token was not among the device's best
	// tokens.
	Margin *float64 `json:"margin"`
}

// Commit is the time that the engine takes to move accepted rows into the cache.
type Commit struct {
	Rows  int     `json:"rows"` // accepted: every second row of a pass
	Bytes int     `json:"bytes"`
	Ms    float64 `json:"ms"`
	GBps  float64 `json:"gbps"`
}

// Copy is one kind of copy by the host.
type Copy struct {
	Kind  string  `json:"kind"`  // "write", "read", "gather"
	Bytes int     `json:"bytes"` // bytes copied
	Piece int     `json:"piece_bytes"`
	Ms    float64 `json:"ms"`
	GBps  float64 `json:"gbps"`
}

// Graphs holds the measured graphs.
type Graphs struct {
	// Paced names the device profile whose time an emulator keeps; empty means
	// the device's own time.
	Paced string `json:"paced,omitempty"`
	Slots int    `json:"slots"`
	// WhileLoading is the time of a run during a load divided by its time alone;
	// 0 if it was not measured.
	WhileLoading float64  `json:"run_while_loading_factor"`
	Failed       []Failed `json:"failed"`
	List         []Graph  `json:"list"`
}

// Failed is a graph that could not be measured.
type Failed struct {
	What  string `json:"what"`
	Error string `json:"error"`
}

// Graph holds the times of one graph. Block counts from 0; -1 is the head.
type Graph struct {
	Name    string  `json:"name"`
	Block   int     `json:"block"`
	Rows    int     `json:"rows"`
	Bytes   int64   `json:"bytes"`
	LoadMs  float64 `json:"load_ms"`
	RunMs   float64 `json:"run_ms"`
	ShortMs float64 `json:"run_ms_short_context"`
}

// Write writes the report as JSON.
func (r *Report) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// Print writes a short table.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n", r.Subject)
	if d := r.Device; d != nil {
		fmt.Fprintf(w, "%s, provider %s, build %s, SoC %s\n", d.Name, d.Provider, d.BuildID, d.SoC)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t)
	for _, s := range r.Steps {
		text := r.summary(s.Name)
		if !s.OK {
			text = "FAILED: " + s.Error
		}
		fmt.Fprintf(t, "%s\t%.1f s\t%s\n", s.Name, s.TookMs/1e3, text)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.printWidths(w)
}

// summary returns the result of a step in a few words.
func (r *Report) summary(step string) string {
	switch {
	case step == "tokens" && r.Tokens != nil:
		return fmt.Sprintf("%d of %d tokens of %d texts equal (%s)", r.Tokens.Equal, r.Tokens.Tokens, len(r.Tokens.Texts), r.Tokens.Reference)
	case step == "commit" && r.Commit != nil:
		return fmt.Sprintf("%d rows in %.3f ms, %.1f GB/s", r.Commit.Rows, r.Commit.Ms, r.Commit.GBps)
	case step == "copies":
		text := ""
		for _, c := range r.Copies {
			text += fmt.Sprintf("%s %.1f GB/s  ", c.Kind, c.GBps)
		}
		return text
	case step == "graphs" && r.Graphs != nil:
		slower := "runs during loads not measured"
		if r.Graphs.WhileLoading > 0 {
			slower = fmt.Sprintf("runs during loads take %.2f times as long", r.Graphs.WhileLoading)
		}
		return fmt.Sprintf("%d graphs, %s", len(r.Graphs.List), slower)
	case step == "profile" && r.Kept != "":
		return "stored as " + r.Kept
	}
	return ""
}

// printWidths prints the sums over all blocks for each width.
func (r *Report) printWidths(w io.Writer) error {
	if r.Graphs == nil || len(r.Graphs.List) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nrows\tMB\tload ms\trun ms\tms per row\t")
	for _, rows := range r.Graphs.widths() {
		var sum Graph
		for _, g := range r.Graphs.List {
			if g.Rows == rows && g.Block >= 0 {
				sum.Bytes, sum.LoadMs, sum.RunMs = sum.Bytes+g.Bytes, sum.LoadMs+g.LoadMs, sum.RunMs+g.RunMs
			}
		}
		fmt.Fprintf(t, "%d\t%.1f\t%.2f\t%.2f\t%.3f\t\n", rows, float64(sum.Bytes)/1e6, sum.LoadMs, sum.RunMs, sum.RunMs/float64(rows))
	}
	return t.Flush()
}
