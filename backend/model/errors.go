package model

import "errors"

var (
	// ErrInvalid is returned if hyper-parameters, tensors or weights of a file
	// do not form a model.
	ErrInvalid = errors.New("invalid model")
	// ErrRounded is returned if the weights that calibration rounded are missing or damaged.
	// Calibrating again makes new ones.
	ErrRounded = errors.New("no rounded weights of these ranges")
	// ErrToken is returned for a token outside the vocabulary.
	ErrToken = errors.New("token is not in the vocabulary")
	// ErrRange is returned for a block that the model does not have.
	ErrRange = errors.New("no such block")
	// ErrRecipe is returned for an unknown recipe name.
	ErrRecipe = errors.New("unknown recipe")
	// ErrRanges is returned if a recipe with integer activations has no ranges
	// for them.
	ErrRanges = errors.New("no ranges of activations")
)
