package engine

import (
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/sampler"
	"github.com/sdnpu/sdnpu/graphswap"
)

// Request asks for one generation.
type Request struct {
	// Prompt holds the token ids, a leading BOS included.
	Prompt []int32
	// MaxTokens ends the output with [StopLimit]; negative means that only
	// the context ends it.
	MaxTokens int
	// Shift lets a full context drop the older half of its tokens, but the first
	// Keep, and go on; without it the output ends with [StopLimit]. The last
	// four places of a context are never kept.
	Shift bool
	Keep  int
	// CachePrompt reuses the longest common prefix that some sequence still
	// holds.
	CachePrompt bool
	Sampling    sampler.Options
	// Mask, when set, says before each draw which tokens are allowed.
	Mask sampler.Mask
	// Stop texts end the output and are not part of it.
	Stop []string
	// Preserve lists control tokens whose text appears in the output; other
	// control tokens are never rendered.
	Preserve []int32
	// Logprobs is how many alternatives each output token reports; 0 is none.
	Logprobs int
	// IgnoreEOS goes on after an end-of-generation token.
	IgnoreEOS bool
	// AllLogits computes the logits of every token of the prompt, which takes
	// the head's time and tells nothing: for measurements.
	AllLogits bool
	// Plan, when set, is carried out for the prompt in place of one that
	// [Options].Plan would give, and Problem is what its report is reckoned by. What it
	// finds resident must be there.
	Plan    *graphswap.Plan
	Problem *graphswap.Problem
}

// Piece is a part of the output: whole UTF-8, no part of a stop text.
type Piece struct {
	Text   string
	Tokens []TokenLogprob
}

// TokenLogprob is one output token; Logprob and Top are set when the request
// asked for them.
type TokenLogprob struct {
	ID      int32
	Text    string
	Logprob float32
	Top     []TokenLogprob
}

// StopReason says why an output ended.
type StopReason string

// The reasons, in llama-server's words.
const (
	StopEOS   StopReason = "eos"
	StopWord  StopReason = "word"
	StopLimit StopReason = "limit"
)

// ProcessorPerToken is the processor time of the process for each output token, the
// prompt's share in it; 0 where it is not known, or where there is no token.
func (r *Report) ProcessorPerToken() time.Duration {
	if r.OutputTokens == 0 {
		return 0
	}
	return r.Processor / time.Duration(r.OutputTokens)
}

// AcceptLength is the mean number of output tokens per pass, 1 without drafts.
// The prefill, which gives the first token, counts as no pass.
func (r *Report) AcceptLength() float64 {
	if r.DecodeSteps == 0 {
		return 1
	}
	return 1 + float64(r.AcceptedRows)/float64(r.DecodeSteps)
}

// Verification is a pass that gave tokens of the output, and all but the first
// one came from such passes.
type Verification struct {
	// Width is the rows of the graphs; Drafted of them were the request's drafts,
	// of which Accepted were right, and Shared those of other requests.
	Width, Drafted, Accepted, Shared int
	// Pass is the time of the graphs since Began, Commit that of moving keys and
	// values. Device is the graphs' on a clock of the device's own, else 0.
	Began                time.Time
	Pass, Commit, Device time.Duration
}

// PromptPass is a pass that had some of a prompt's tokens.
type PromptPass struct {
	// Width is the rows of the graphs; Rows of them were the prompt's tokens, for
	// Logits of which the head ran.
	Width, Rows, Logits int
	// Pass is the time of the graphs since Began, Device that on a clock of the
	// device's own, else 0.
	Began        time.Time
	Pass, Device time.Duration
}

// Report tells what a request did. Every later feature adds its effect here.
type Report struct {
	// Recipe, Widths (rows of the graphs, descending) and Blocks are the
	// settings that the request ran with.
	Recipe string
	Widths []int
	Blocks int
	// PromptTokens were processed, CachedTokens reused, OutputTokens drawn.
	PromptTokens, CachedTokens, OutputTokens int
	Output                                   []int32
	Stop                                     StopReason
	// Prefill ends with the first token's logits; FirstToken counts from the
	// start of the request, which is Began; Decode is the rest.
	Began                       time.Time
	Prefill, FirstToken, Decode time.Duration
	// Processor is the time of all cores in this process meanwhile, that of other
	// requests among it, where [Options].ProcessTime is set.
	Processor time.Duration
	// Context is what the graphs held at the end, in tokens of one sequence;
	// Growths are those that this request made.
	Context int
	Growths []Growth
	// Truncated tells that the context was full. Shifts counts how often room
	// was made, DroppedTokens what went.
	Truncated             bool
	Shifts, DroppedTokens int
	// Steps counts passes that had rows of this request.
	Steps int
	// The rows of these passes: ValidRows are the request's that became text,
	// WastedRows its drafts that did not, SharedRows those of other requests,
	// PaddingRows nobody's.
	ValidRows, WastedRows, SharedRows, PaddingRows int
	// Draft is the mode of speculative decoding. DraftedRows of drafts ran beside
	// DecodeSteps passes for output tokens, and AcceptedRows of them were right.
	Draft                                  string
	DecodeSteps, DraftedRows, AcceptedRows int
	// Lossless tells what drafts can change of the text.
	Lossless Lossless
	// TopDraws are the tokens drawn from the best logits of a row alone, RowDraws
	// those for which the whole row was read.
	TopDraws, RowDraws int
	// Calibration is what was learned from the prompt's own probabilities.
	Calibration Calibration
	// Drafting is the time spent on drafts; what was spent of it while the prompt
	// was computed is PromptDrafting. What goes on beside the device is Calibration's.
	Drafting, PromptDrafting time.Duration
	// DraftingCPU is the processor time of Drafting where [Options].ThreadTime is
	// set, PromptDraftingCPU what was spent of it while the prompt was computed.
	DraftingCPU, PromptDraftingCPU time.Duration
	// Verifications are the DecodeSteps passes, PromptPasses those before the first
	// of them, CPU what was done beside and between them.
	Verifications []Verification
	PromptPasses  []PromptPass
	CPU           []Work
	// Residency names which graphs are in the device: [Options].Plan or what an
	// empty one comes to.
	Residency string
	// Clock is whose time Plan and the fields named Device tell; all others are
	// of the host's clock.
	Clock Clock
	// Plan tells how graphs were exchanged while the prompt was computed, or what
	// was done on graphs that stayed; nil before the prompt's first pass.
	Plan *PlanReport
	// Ops counts graph operators run per lane in these passes.
	Ops map[backend.Lane]int64
}
