// Package inprocess implements llm.LlamaServer, Ollama's interface of a runner, with the
// engine in the same process. Package inprocess is for programs that embed Ollama's Go
// packages: no child process answers, and no HTTP connection is opened.
//
// Package launch opens the model, and [llamaserver.Requests] checks and converts
// requests, so a program that calls this package gets the answers of our llama-server.
//
// Package inprocess is a module of its own, because Ollama's package llm needs modules
// that our programs do not need. An unmodified Ollama starts llama-server instead; see
// package ollama.
//
// # Limits
//
//   - The vendor's compiler runs in this process, because a program that embeds Ollama
//     cannot serve as our compiling child process. A crash of the compiler ends the
//     program. `sdnpu enable` and `sdnpu prepare` compile models before.
//   - A model runs if the caller asks for it. The key sdnpu.enabled is not needed.
//   - The NPU is not in Ollama's list of devices: its memory counts in MemorySize and in
//     no device's VRAMByGPU.
//   - If the NPU is lost, requests fail, HasExited reports true and the caller must close
//     the runner and load another.
package inprocess
