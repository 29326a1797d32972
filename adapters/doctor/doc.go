// Package doctor checks whether a machine has everything that sdnpu needs, and estimates
// and measures what a model costs on the machine. For each missing part, the doctor's
// report names the remedy.
//
// [Machine] checks the device, the chip, the DSP's driver and images, a C compiler, the
// image cache, Ollama and the environment. The checks of the machine change nothing, except
// that they create the cache folder.
//
// [Checkup] examines one model: it estimates disk and memory, compiles the model, loads
// it again from the cache, generates a token and measures flips. Images that a checkup
// compiles stay in the cache, unless the caller asks for a fresh compilation.
//
// Package doctor prints nothing. Findings are returned. A checkup takes minutes, so it also
// calls the function [Checkup].Say with each line of the report as soon as the line is
// known.
//
// # Invariants
//
//   - A finding that shows a problem says what to do.
//   - A checkup removes the folders that killed checkups left, but never a folder that is in use.
package doctor
