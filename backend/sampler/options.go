package sampler

import (
	"errors"
	"fmt"
	"math"
)

var (
	// ErrOptions is returned for options outside their range.
	ErrOptions = errors.New("sampling options out of range")
	// ErrLogits is returned if a row of logits is empty or holds NaN.
	ErrLogits = errors.New("logits are not numbers")
	// ErrNoToken is returned if mask and -Inf logits allow no token.
	ErrNoToken = errors.New("no token is allowed")
)

// Mask limits the tokens that may come next, as a grammar does. Sample only
// asks; the caller that keeps the token calls Accept.
type Mask interface {
	// Allowed reports whether token may come next. Sample asks only about
	// tokens that matter.
	Allowed(token int32) bool
	// Accept advances the mask past token.
	Accept(token int32)
}

// Options tunes a Sampler. The zero value is greedy, without filters.
type Options struct {
	// Temperature divides the logits. Zero or less selects the best token after
	// penalties and typical-p, the lowest id among equals.
	Temperature float32
	// TopK keeps the k best tokens. Zero or less means off.
	TopK int
	// TopP keeps the fewest best tokens whose probability reaches this value.
	// Zero means off, and so does one or more.
	TopP float32
	// MinP drops tokens that are less likely than this share of the best
	// token's probability. Zero means off. Values above one count as one.
	MinP float32
	// TypicalP keeps the tokens whose surprise is nearest to the entropy, until
	// their probability exceeds this value. Zero means off, and so does one or
	// more.
	TypicalP float32
	// RepeatPenalty divides positive logits of recent tokens and multiplies others. Zero and one
	// disable it.
	RepeatPenalty float32
	// FrequencyPenalty is subtracted once per recent occurrence.
	FrequencyPenalty float32
	// PresencePenalty is subtracted once from each recent token.
	PresencePenalty float32
	// RepeatLastN is the number of accepted tokens that count as recent. Zero
	// turns the penalties off; -1 means all tokens.
	RepeatLastN int
	// Seed starts the generator. Every value, including zero, is a fixed seed.
	Seed uint64
}

// check rejects values without a meaning.
func (o Options) check() error {
	for _, f := range []struct {
		name     string
		value    float32
		negative bool // values below zero are allowed
	}{
		{"temperature", o.Temperature, true},
		{"top-p", o.TopP, false},
		{"min-p", o.MinP, false},
		{"typical-p", o.TypicalP, false},
		{"repeat penalty", o.RepeatPenalty, false},
		{"frequency penalty", o.FrequencyPenalty, true},
		{"presence penalty", o.PresencePenalty, true},
	} {
		v := float64(f.value)
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 && !f.negative {
			return fmt.Errorf("%w: %s is %v", ErrOptions, f.name, f.value)
		}
	}
	if o.RepeatLastN < -1 {
		return fmt.Errorf("%w: repeat last n is %d", ErrOptions, o.RepeatLastN)
	}
	return nil
}

// penalties reports whether recent tokens change any logit.
func (o Options) penalties() bool {
	repeat := o.RepeatPenalty != 0 && o.RepeatPenalty != 1
	return o.RepeatLastN != 0 && (repeat || o.FrequencyPenalty != 0 || o.PresencePenalty != 0)
}

func (o Options) typical() bool { return o.TypicalP > 0 && o.TypicalP < 1 }
func (o Options) nucleus() bool { return o.TopP > 0 && o.TopP < 1 }
