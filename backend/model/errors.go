package model

import "errors"

var (
	// ErrInvalid is returned when hyper-parameters, tensors or weights of a
	// file do not make up a model.
	ErrInvalid = errors.New("invalid model")
	// ErrToken is returned when a token is not in the vocabulary.
	ErrToken = errors.New("token is not in the vocabulary")
	// ErrRange is returned when a block is asked for that the model does not
	// have.
	ErrRange = errors.New("no such block")
	// ErrRecipe is returned when no precision recipe has the name.
	ErrRecipe = errors.New("unknown recipe")
	// ErrRanges is returned when a recipe with integer activations is used
	// without the ranges that these have in the model.
	ErrRanges = errors.New("no ranges of activations")
)
