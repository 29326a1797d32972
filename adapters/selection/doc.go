// Package selection writes the keys that select a model for the NPU: into a copy of the
// model's GGUF file, or into an adapter file of a few hundred bytes.
//
// [Keys] checks settings and turns them into keys. [WriteCopy] and [WriteAdapter] first check
// that the model can run with the keys, because otherwise the user would see the problem only
// when Ollama loads the model. The package neither creates a model in Ollama (package enable
// does) nor compiles anything, and it prints nothing. Each function of package selection
// closes the file of a model that it has opened.
//
// # Invariants
//
//   - A file is written completely or not at all.
//   - Only users who can read the model can read a copy or an adapter made from it.
//   - The key that selects the model for the NPU is in each file that is written.
//
// # Cost
//
// Each function of package selection reads the model's header and tokenizer. WriteCopy also
// reads and writes all weights.
package selection
