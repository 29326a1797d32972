package engine

import (
	"time"

	"github.com/sdnpu/sdnpu/backend"
)

// ProcessorPerToken returns the processor time of the process per output token, the
// prompt's time included. It returns 0 if the time is unknown or there is no token.
func (r *Report) ProcessorPerToken() time.Duration {
	if r.OutputTokens == 0 {
		return 0
	}
	return r.Processor / time.Duration(r.OutputTokens)
}

// AcceptLength returns the mean number of output tokens per verification pass, which
// is 1 without drafts. The prefill, which gives the first token, does not count.
func (r *Report) AcceptLength() float64 {
	if r.DecodeSteps == 0 {
		return 1
	}
	return 1 + float64(r.AcceptedRows)/float64(r.DecodeSteps)
}

// Verification is a pass that gave output tokens. All tokens but the first one come
// from such passes.
type Verification struct {
	// Width is the number of rows of the graphs. Of these rows, Drafted were the
	// request's drafts, Accepted of which were right, and Shared were rows of other
	// requests.
	Width, Drafted, Accepted, Shared int
	// Pass is the time that the graphs took from Began on, and Commit the time to
	// copy keys and values. Device is the graphs' time on the device's own clock, or 0.
	Began                time.Time
	Pass, Commit, Device time.Duration
}

// PromptPass is a pass with tokens of a prompt.
type PromptPass struct {
	// Width is the number of rows of the graphs. Of these rows, Rows were tokens of
	// the prompt, and the head ran for Logits of them.
	Width, Rows, Logits int
	// Pass is the time that the graphs took from Began on. Device is the same time on the device's
	// own clock, or 0.
	Began        time.Time
	Pass, Device time.Duration
}

// Report describes what a request did.
type Report struct {
	// Recipe, Widths (rows of the graphs, descending) and Blocks are the settings.
	Recipe string
	Widths []int
	Blocks int
	// PromptTokens were processed, CachedTokens reused, OutputTokens drawn.
	PromptTokens, CachedTokens, OutputTokens int
	Output                                   []int32
	Stop                                     StopReason
	// The request started at Began. Prefill is the time until the logits of the first
	// token, FirstToken the time until it was drawn, and Decode the rest.
	Began                       time.Time
	Prefill, FirstToken, Decode time.Duration
	// Processor is the time that all cores spent in this process during the request,
	// for other requests too. It is 0 unless [Options].ProcessTime is set.
	Processor time.Duration
	// Context is the context of the graphs at the end, in tokens of one sequence.
	// Growths are the growths of the context that this request made.
	Context int
	Growths []Growth
	// Truncated reports that the context was full. Shifts counts how often older
	// tokens were dropped, and DroppedTokens those tokens.
	Truncated             bool
	Shifts, DroppedTokens int
	// Steps counts passes that had rows of this request.
	Steps int
	// The rows of these passes: ValidRows became text of the request, WastedRows were
	// drafts that did not, SharedRows belong to other requests, and PaddingRows hold no
	// token.
	ValidRows, WastedRows, SharedRows, PaddingRows int
	// Draft is the mode of speculative decoding. DecodeSteps passes gave output
	// tokens; they had DraftedRows rows of drafts, AcceptedRows of which were right.
	Draft                                  string
	DecodeSteps, DraftedRows, AcceptedRows int
	// Lossless describes how drafts can change the text.
	Lossless Lossless
	// TopDraws counts tokens that were drawn from the best logits of a row, RowDraws
	// those for which all logits were read.
	TopDraws, RowDraws int
	// Calibration describes what was learned from the prompt's own logits.
	Calibration Calibration
	// Drafting is the time spent on drafts, and PromptDrafting the part of it during
	// the prompt. Work that overlaps with the device counts for Calibration.
	Drafting, PromptDrafting time.Duration
	// DraftingCPU and PromptDraftingCPU are the processor times of Drafting and
	// PromptDrafting, if the [Policy] measures them.
	DraftingCPU, PromptDraftingCPU time.Duration
	// Verifications are the DecodeSteps passes, PromptPasses the passes before them,
	// and CPU the work of the CPU during and between them.
	Verifications []Verification
	PromptPasses  []PromptPass
	CPU           []Work
	// Residency is the plan that decides which graphs are loaded: [Options].Plan, or the default
	// plan if that is empty.
	Residency string
	// Clock is the clock of Plan and of the fields named Device. All other times are measured on
	// the host's clock.
	Clock Clock
	// Plan describes how graphs were switched for the prompt, or what ran on graphs
	// that stayed loaded. It is nil before the prompt's first pass.
	Plan *PlanReport
	// Ops counts the graph operators that these passes ran, by lane.
	Ops map[backend.Lane]int64
}

// addPass counts a pass with rows of the request, of which valid became text, and
// records it: as a verification if it gave output tokens, or as one of the prompt's.
func (r *Report) addPass(o *passOutput, valid int, verified bool, commit time.Duration) {
	pass, rows := o.result, o.rows.n+o.rows.drafts
	r.Steps++
	r.ValidRows += valid
	r.WastedRows += rows - valid
	r.SharedRows += pass.ValidRows - rows
	r.PaddingRows += pass.PaddingRows
	if r.Ops == nil {
		r.Ops = make(map[backend.Lane]int64)
	}
	for _, ops := range []map[backend.Lane]int64{pass.Ops, o.extra.Ops} {
		for lane, n := range ops {
			r.Ops[lane] += n
		}
	}
	width, device := pass.ValidRows+pass.PaddingRows, pass.virtual+o.extra.virtual
	if r.DecodeSteps == 0 && len(r.PromptPasses) < maxVerified {
		r.PromptPasses = append(r.PromptPasses, PromptPass{
			Width: width, Rows: o.rows.n, Logits: o.countLogits(), Began: pass.began, Pass: pass.took, Device: device,
		})
	}
	if verified {
		r.Verifications = append(r.Verifications, Verification{
			Width: width, Drafted: o.rows.drafts, Accepted: o.accepted, Shared: pass.ValidRows - rows,
			Began: pass.began, Pass: pass.took, Commit: commit, Device: device,
		})
	}
}

// countLogits counts the tokens of the rows for which the head ran.
func (o *passOutput) countLogits() (n int) {
	for i := range o.rows.n {
		if len(o.tops[i].IDs) > 0 || o.logits[i] != nil {
			n++
		}
	}
	return n
}
