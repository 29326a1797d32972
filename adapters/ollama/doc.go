// Package ollama finds an Ollama installation and lays our program out beside
// it, without changing it.
//
// Ollama looks for llama-server in lib/ollama beside its own executable and
// offers no setting for another place. So [Lay] makes a private folder with
// bin/ollama (a hard link or a copy: Ollama resolves symbolic links) and
// lib/ollama/, in which llama-server is ours and everything else is a symbolic
// link to the original's files.
package ollama
