// Package ollama finds Ollama installations and makes a private copy of an installation that starts
// our program.
//
// Ollama starts lib/ollama/llama-server relative to its own executable and has
// no setting for another path. So [Lay] makes a folder with bin/ollama (a hard
// link or a copy, because Ollama resolves symbolic links) and lib/ollama. There,
// llama-server is our program and everything else is a symbolic link to the
// files of the installation.
//
// The installation itself is never changed. The package starts Ollama only to
// ask for its version.
package ollama
