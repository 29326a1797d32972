// Package enable makes NPU variants of the models of a running Ollama, and removes
// them.
//
// A variant is a second name for the weights of its base model. The variant consists of
// the layers of the base model and of an adapter of a few hundred bytes, which selects
// the NPU. Package enable talks to Ollama's HTTP API only and copies no weights.
// Package enable reads the model's file, whose path Ollama reports, so the package must
// be used on Ollama's machine.
//
// # Order of the steps
//
//  1. [Ollama.Enable] checks everything that can be checked in advance, and changes nothing.
//  2. The caller compiles, calibrates and checks the model, which changes only the image cache.
//  3. A journal notes the names of the adapter and of the variant that will be created.
//  4. The adapter is uploaded, and the variant is created under a temporary name (the unfinished name).
//  5. A first short request loads the unfinished variant.
//  6. The variant gets its final name, and the unfinished name is removed.
//
// # Invariants
//
//   - A variant gets its final name only after it has answered a request.
//   - If a step fails, the completed steps are undone at once.
//   - If the process is killed, the next call for the same Ollama undoes the completed steps.
//   - After [Ollama.Disable], Ollama's store is as it was before [Ollama.Enable].
//   - The last name of a model's weights is never removed.
package enable
