// Package client tests the program against Ollama's client code: package llm starts it
// as its llama-server and talks to it, without Ollama's server.
package client
