// Package parent notices that the process which started this one has exited.
//
// Ollama starts one server for each model. If Ollama is killed, the servers get no
// message, and each keeps the memory of its model. [Watch] lets such a server end.
//
// Each watch costs one goroutine, and on Linux one thread.
package parent
