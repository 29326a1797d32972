package engine

import (
	"errors"
	"fmt"
)

var (
	// ErrOptions is returned when options contradict themselves or the model.
	ErrOptions = errors.New("invalid options")
	// ErrRequest is returned for a request that can have no answer, such as an
	// empty prompt or a token outside the vocabulary.
	ErrRequest = errors.New("invalid request")
	// ErrPromptTooLong matches every [PromptTooLongError].
	ErrPromptTooLong = errors.New("prompt is longer than the context")
	// ErrPass is returned for rows that no graph or sequence can take, and for
	// a commit that does not follow from the last pass.
	ErrPass = errors.New("invalid pass")
	// ErrJob is returned when the graphs of a [Job] are not those that it was
	// made for.
	ErrJob = errors.New("the graphs are not those that were asked for: the model's file or the program has changed")
)

// PromptTooLongError is returned when a prompt does not fit the context.
type PromptTooLongError struct {
	// Tokens is the prompt's length, Context the longest possible.
	Tokens, Context int
}

// Error tells both lengths.
func (e *PromptTooLongError) Error() string {
	return fmt.Sprintf("engine: %v: %d tokens, %d fit", ErrPromptTooLong, e.Tokens, e.Context)
}

// Is reports whether target is [ErrPromptTooLong].
func (e *PromptTooLongError) Is(target error) bool { return target == ErrPromptTooLong }
