// Package variant prepares the NPU variant of a model of Ollama before Ollama loads it:
// it calibrates the model, checks the recipe and compiles all images.
//
// Package enable creates the variant in Ollama and calls package variant through
// [enable.Request]. The images and findings go to the image cache, where Ollama's runner
// looks for them. This process must have the environment variables of Ollama's server, because
// these variables name the folder of the image cache: see [enable.Process.Adopt].
//
// # Cost
//
// A preparation takes minutes and changes only the image cache.
package variant
