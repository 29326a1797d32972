// Package variant prepares the NPU variant of a model of Ollama before Ollama loads it:
// it calibrates the model, checks the recipe and compiles all images.
//
// Package enable creates the variant in Ollama and calls package variant through
// [enable.Request]. The images and findings go to the image cache, where Ollama's runner
// finds them. So that the runner finds them, this process must have the environment
// variables of Ollama's server: see [enable.Process.Adopt].
//
// # Cost
//
// A preparation takes minutes. It changes only the image cache.
package variant
