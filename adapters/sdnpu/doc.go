// Command sdnpu runs GGUF models on the Hexagon NPU.
//
// Under the name llama-server, which Ollama calls, it is package runner: models
// that their config selects run on the NPU, and everything else goes to the
// original llama-server with the same arguments. Under any other name it is a
// command line.
//
// This package holds flags, help and printing. The work is in packages with one
// purpose each: launch (settings, devices and models), findings (measured
// results), doctor, database, runner, qnnruntime and ollama.
package main
