// Package variant prepares the NPU variant of a model of Ollama before Ollama loads it:
// it calibrates the model, checks the recipe and compiles all images.
//
// Package enable creates the variant in Ollama and calls package variant through
// [enable.Request]. The images and findings go to the image cache, where Ollama's runner
// looks for them. This process must have the environment variables of Ollama's server, because
// these variables name the folder of the image cache: see [enable.Process.Adopt].
// Package variant creates nothing in Ollama.
//
// # Invariants
//
//   - Package variant opens the model with the same configuration as Ollama's runner.
//   - If a recipe that the user has named fails its quality gate, the preparation fails.
//   - For the recipe auto, package variant chooses a recipe that passes its quality gate.
//   - A preparation writes files only to the image cache.
//   - Without an image cache, nothing is prepared.
//
// The model's file, the adapter and the environment set keys of the configuration: values of
// the adapter replace those of the model, and values of the environment replace both.
//
// # Cost
//
// A preparation takes minutes. The device, the model and the engine that a preparation opens
// are closed when [Preparation.Run] returns.
package variant
