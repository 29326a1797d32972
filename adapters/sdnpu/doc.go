// Command sdnpu runs GGUF models on the Hexagon NPU.
//
// If Ollama calls the program by the name llama-server, package runner takes over:
// models that their config selects run on the NPU, and all other models are handed
// to the original llama-server with the same arguments. Under any other name, the
// program is a command line.
//
// Package sdnpu holds flags, help texts and printing. The work is done in packages
// with one purpose each: launch (settings, devices and models), findings (measured
// results), doctor, database, runner, qnnruntime and ollama.
package main
