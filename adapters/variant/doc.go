// Package variant prepares the NPU variant of a model of Ollama before Ollama loads it:
// it calibrates the model, checks the recipe and compiles all images.
//
// Package enable creates the variant in Ollama and calls package variant through
// [enable.Request]. The images and findings go to the image cache, where Ollama's runner
// looks for them. This process must have the environment variables of Ollama's server, because
// these variables name the folder of the image cache: see [enable.Process.Adopt].
// Package variant creates nothing in Ollama, and decides no more than Ollama\'s runner would.
//
// # Invariants
//
//   - The model is opened with the configuration that Ollama's runner will have: the keys of
//     the model, of the adapter and of the environment, in this order.
//   - A recipe that fails its quality gate is an error, unless the recipe is auto: then a
//     recipe that passes is chosen.
//   - Files are written to the image cache only. Without an image cache, nothing is prepared.
//
// # Cost
//
// A preparation takes minutes. The device, the model and the engine that it opens are closed
// when [Preparation.Run] returns.
package variant
