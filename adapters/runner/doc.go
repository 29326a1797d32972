// Package runner implements the programs that Ollama calls, llama-server and llama-quantize, under
// whose names this program also runs.
//
// As llama-server it reads the model's config. If the model is selected for the NPU, it loads and
// serves the model. If not, it becomes Ollama's own llama-server with the same arguments. Package
// llamaserver implements the protocol.
//
// As llama-quantize it copies a file, because `ollama create` needs the program
// and some hosts have none.
//
// # Invariants
//
//   - A model that is not selected runs even if our settings are invalid.
//   - The server listens before it loads, and reports progress while it loads, so
//     that Ollama does not give up.
//   - If the NPU is lost, the process exits, and Ollama starts another.
package runner
