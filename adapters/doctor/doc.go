// Package doctor finds out what a machine has, what is missing and what to do about
// it, and what a model costs on this machine.
//
// [Machine] checks the device, the chip, the DSP's driver and images, a C compiler,
// the image cache, Ollama and the environment. [Machine] changes nothing, except
// that it creates the cache folder.
//
// [Checkup] examines one model: it estimates disk and memory, compiles the model, loads
// it again from the cache, generates a token and measures flips. Images that a checkup
// compiles stay in the cache, unless the caller asks for a fresh compilation.
//
// Package doctor prints nothing. Findings are returned. A checkup takes minutes, so it
// also reports each line through a function as soon as the line is known.
//
// # Invariants
//
//   - A finding that shows a problem says what to do.
//   - A checkup removes the folders that killed checkups left, but never a folder
//     that is in use.
package doctor
