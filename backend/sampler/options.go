package sampler

import (
	"errors"
	"fmt"
	"math"
)

var (
	// ErrOptions is returned when options are not numbers a sampler can use.
	ErrOptions = errors.New("sampling options out of range")
	// ErrLogits is returned when a row of logits is empty or holds NaN.
	ErrLogits = errors.New("logits are not numbers")
	// ErrNoToken is returned when the mask or -Inf logits leave no token.
	ErrNoToken = errors.New("no token is allowed")
)

// Mask says which tokens may come next, as a grammar does. Sample only asks;
// whoever keeps the drawn token tells the mask through Accept.
type Mask interface {
	// Allowed reports whether token may come next. Sample asks about the
	// tokens that matter and not about every one.
	Allowed(token int32) bool
	// Accept moves on past token.
	Accept(token int32)
}

// Options tunes a Sampler. The zero value is greedy, with everything off.
type Options struct {
	// Temperature divides the logits. Zero or less takes the best token that
	// penalties and typical-p leave, the lowest id among equals.
	Temperature float32
	// TopK keeps the k best tokens. Zero or less is off.
	TopK int
	// TopP keeps the fewest best tokens that together reach this probability.
	// Zero, and one or more, is off.
	TopP float32
	// MinP drops tokens less likely than this share of the best one's
	// probability. Zero is off; more than one counts as one.
	MinP float32
	// TypicalP keeps the tokens whose surprise is nearest to the entropy,
	// until they exceed this probability. Zero, and one or more, is off.
	TypicalP float32
	// RepeatPenalty divides the positive logits of recent tokens and
	// multiplies the others. Zero and one are off.
	RepeatPenalty float32
	// FrequencyPenalty is subtracted once for each recent occurrence.
	FrequencyPenalty float32
	// PresencePenalty is subtracted once from each recent token.
	PresencePenalty float32
	// RepeatLastN is how many accepted tokens count as recent. Zero turns the
	// penalties off, -1 is all of them.
	RepeatLastN int
	// Seed starts the generator. Every value, zero included, is a fixed seed.
	Seed uint64
}

// check refuses what no filter could give a meaning to.
func (o Options) check() error {
	for _, f := range []struct {
		name     string
		value    float32
		negative bool // whether values below zero have a meaning
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
