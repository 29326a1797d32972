// Package llamaserver implements the protocol that Ollama, the host, uses with
// llama-server: the HTTP endpoints and the output lines that the host parses. Package
// arguments reads the command line, and package parent notices that the host has exited.
//
// The package neither loads models nor starts the original llama-server.
// Package runner loads models, starts the original llama-server, and passes the
// loaded [Model] to [Server.SetModel].
//
// # Where things are
//
//   - A field of every request: completionRequest, its default in defaults, and its use in
//     engineRequest (request.go). Answers repeat the field in settings (events.go), and
//     docs/openapi.yaml and completionFields of package inprocess list it.
//   - A field of one kind of request: chatRequest (chat.go), textRequest (text.go) or
//     responseRequest (responses.go). Grammars and JSON schemas: grammars.of (grammars.go).
//   - A field of an answer: event, timings and effects (events.go).
//   - The same requests without HTTP, for Go programs: Requests (requests.go).
//
// # Invariants
//
//   - /health answers at once, even while a model loads or generates.
//   - A stream ends with its final event or with an aborted connection. If a stream ended
//     normally without its final event, the host would take a partial answer for a complete
//     one.
//   - No event is empty, and at most thirty consecutive events have the same trimmed
//     content. If a stream breaks this rule, the host drops it silently.
//   - A request that cannot be served is rejected before it costs anything. A prompt
//     that is too long for the context with any tokenization is not tokenized.
//   - The memory of all requests together has a limit, whatever the requests contain and
//     however slowly clients write or read. The limit covers bodies, texts that are being
//     tokenized, the queue, answers that are not streamed, and connections (limits.go,
//     intake.go, package connections).
//   - Web pages of other sites and requests without a key of the server are rejected
//     (package access).
//   - A request for something that the server cannot do is rejected with a
//     sentence, which the host shows to its user.
//   - A line that reports no failure contains none of the words by which the host
//     recognises a failure. No line contains text of a prompt or an answer.
//
// # Chats
//
// The host renders prompts itself for models with a TEMPLATE and then needs
// /completion, /tokenize and /detokenize only. For models without a TEMPLATE, the
// host sends conversations, and package chat applies the template in the GGUF file.
//
// All statements about the host hold for Ollama v0.30.0 to v0.32.9.
package llamaserver
