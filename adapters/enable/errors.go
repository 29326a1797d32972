package enable

import "errors"

// ErrNoOllama is returned if no Ollama answers at the address.
var ErrNoOllama = errors.New("no Ollama answers")

// ErrNoModel is returned if Ollama has no model with the name.
var ErrNoModel = errors.New("Ollama has no such model")

// ErrUnsuitable is returned for a model that cannot have an NPU variant.
var ErrUnsuitable = errors.New("the model cannot run on the NPU")

// ErrNameTaken is returned if the name of the variant belongs to another model.
var ErrNameTaken = errors.New("the name belongs to another model")

// ErrNotEnabled is returned if there is no NPU variant to remove.
var ErrNotEnabled = errors.New("the model has no NPU variant")

// ErrLastName is returned if the removal of a variant would also remove its
// weights.
var ErrLastName = errors.New("no other model has these weights")

// ErrBusy is returned if another process enables or disables models of the same
// Ollama.
var ErrBusy = errors.New("another process enables or disables models of this Ollama")

// ErrOtherRunner is returned if Ollama starts a llama-server that is not sdnpu's.
var ErrOtherRunner = errors.New("this Ollama does not start sdnpu")
