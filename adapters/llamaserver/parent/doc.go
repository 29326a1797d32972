// Package parent notices that the process which started this one has exited.
//
// Ollama starts one server for each model. If Ollama is killed, its servers get no
// message, and each server would keep the memory of its model. With [Watch], a server
// notices that Ollama has exited, and can end itself.
//
// Each watch costs one goroutine, and on Linux one thread.
package parent
