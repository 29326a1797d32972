package engine

import (
	"errors"
	"fmt"
)

var (
	// ErrRequest is returned for a request that the engine cannot answer, such as an
	// empty prompt or a token outside the vocabulary.
	ErrRequest = errors.New("invalid request")
	// ErrPromptTooLong matches every error of type [PromptTooLongError].
	ErrPromptTooLong = errors.New("the prompt is longer than the context")
	// ErrPass is returned for a pass with rows that no graph or sequence can hold, and
	// for a commit of rows that the last pass did not compute.
	ErrPass = errors.New("invalid pass")
)

// PromptTooLongError is returned if a prompt has more tokens than the context allows.
type PromptTooLongError struct {
	// Tokens is the length of the prompt, and Context the longest length that a prompt
	// may have.
	Tokens, Context int
}

// Error returns a text with the length of the prompt and the allowed length.
func (e *PromptTooLongError) Error() string {
	return fmt.Sprintf("engine: %v: %d tokens: want 1..%d", ErrPromptTooLong, e.Tokens, e.Context)
}

// Is reports whether target is [ErrPromptTooLong].
func (e *PromptTooLongError) Is(target error) bool { return target == ErrPromptTooLong }
