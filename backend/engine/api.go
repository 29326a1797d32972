package engine

import (
	"github.com/sdnpu/sdnpu/backend/engine/detok"
	"github.com/sdnpu/sdnpu/backend/sampler"
)

// Request asks for one generation.
type Request struct {
	// Prompt holds the token ids, a leading BOS included.
	Prompt []int32
	// MaxTokens limits the output, which then ends with [StopLimit]. If it is negative, only the
	// context ends the output.
	MaxTokens int
	// Shift lets a full context drop the older half of the tokens after the first
	// Keep, and continue. Without it the output ends with [StopLimit]. Keep never
	// covers the last four slots of a context.
	Shift bool
	Keep  int
	// CachePrompt reuses the tokens that a sequence and the prompt begin with.
	CachePrompt bool
	Sampling    sampler.Options
	// Mask, if set, tells before each draw which tokens are allowed.
	Mask sampler.Mask
	// Stop strings end the output and are not part of it.
	Stop []string
	// Preserve lists control tokens whose text appears in the output; other
	// control tokens are never rendered.
	Preserve []int32
	// Logprobs is the number of alternatives that each output token reports.
	Logprobs int
	// IgnoreEOS continues the output after an end-of-generation token.
	IgnoreEOS bool
}

// Piece is a part of the output: whole UTF-8, no part of a stop string.
type Piece = detok.Piece

// TokenLogprob is one output token. Logprob and Top are set if the request asked
// for them.
type TokenLogprob = detok.TokenLogprob

// StopReason is the reason why an output ended.
type StopReason string

// The reasons have llama-server's names.
const (
	StopEOS   StopReason = "eos"
	StopWord  StopReason = "word"
	StopLimit StopReason = "limit"
)
