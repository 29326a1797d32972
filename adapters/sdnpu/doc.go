// Command sdnpu runs GGUF models on the Hexagon NPU.
//
// Called llama-server, as Ollama calls it, it speaks that program's dialect:
// models that their config selects run on the NPU, everything else goes to the
// original llama-server with the same arguments. Called by any other name it
// is a command line: run a model, select one for the NPU, look what is there.
//
// This is the only package that picks a device and reads the environment.
package main
