// Package client tests the program against Ollama's own client code: package
// llm starts it as its llama-server and talks to it, without the server around.
package client
