// Package llamaserver speaks the dialect that the host knows from
// llama-server: its command line, its HTTP endpoints, the lines it parses from
// the output, and the end of a process whose parent is gone.
//
// It generates nothing itself: a [Model] arrives by [Server.SetModel] once it
// is loaded, and it does not start the original program; both are the work of
// adapters/sdnpu.
//
// # Invariants
//
//   - /health answers at once, also while a model loads or generates;
//   - a stream ends with its final event or with an aborted connection, never
//     cleanly without one: the host would take a cut answer for a whole one;
//   - no event is empty, and no more than thirty in a row have the same
//     trimmed content: the host drops such a stream without a word;
//   - what cannot be served is refused before it costs anything: a prompt that
//     cannot fit is not tokenized, and bodies are bounded in size and time;
//   - what a request asks for and the server cannot do is refused with a
//     sentence (the host shows the body to people) and not left out;
//   - a line that reports no failure holds none of the words by which the host
//     recognises one, and no line holds any text of a prompt or an answer.
//
// # Why native chat is refused
//
// The host renders prompts itself for every model that has a TEMPLATE and then
// needs /completion, /tokenize and /detokenize only. Models without one ask
// the server to apply the template in the GGUF file; that answer names the
// remedy.
//
// The facts about the host are those of Ollama v0.30.0 to v0.32.9.
package llamaserver
