// Package headline measures whole systems as a user meets them: a real, unmodified
// Ollama serves a model with the product's program as its llama-server, and package
// headline asks through Ollama's HTTP API.
//
// Each system is a variant of one model in the same Ollama: off (sdnpu.mode=plain),
// auto (selected, and no other key), and the published systems of package published.
// The product's program hands the published variants to the laboratory's program, as it
// hands every model that is not selected to Ollama's original llama-server. The systems
// answer each prompt in turn, and another system begins with each prompt.
//
// The emulator simulates the times of a phone. On the emulator's virtual clock, the
// times of a request are those of the device: calls into it, and waits for loads. Of
// the CPU's work, these times include drafting, as processor time of this machine. With
// the pace wall, calls last as long as on the phone, and the client measures the times.
// Answers are kept in memory as a source of drafts, so an interrupted run that starts
// again has lost the answers before the interruption.
package headline
