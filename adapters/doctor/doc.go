// Package doctor finds out what a machine has, what is missing and what to do,
// and what a model costs on it.
//
// [Machine] checks the device, the chip, the DSP's driver and images, a C
// compiler, the image cache, Ollama and the environment. It changes nothing
// except that it creates the cache folder.
//
// [Checkup] examines one model: it estimates disk and memory, compiles the
// model, loads it again from the cache, generates a token and measures flips.
// Everything stays in the cache unless the caller asks for a fresh one.
//
// The package prints nothing. Findings are returned, and a checkup reports each
// line through a function as soon as it is known, because it takes minutes.
//
// # Invariants
//
//   - Each finding without a result has a remedy.
//   - Folders of killed checkups are removed by the next one, and folders in use
//     never are.
package doctor
