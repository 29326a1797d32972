// Package host runs a real Ollama privately: it finds or builds one, lays our
// program out beside it, and serves on a free loopback port until closed. The
// demo and the tests of the whole use it.
package host
