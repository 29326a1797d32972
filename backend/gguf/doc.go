// Package gguf reads GGUF model files without trusting them, and writes small ones.
//
// A file is mapped (package mapped) and its header is read once. Reading checks every
// count, length and offset before it is used, and allocates only for what the file
// holds. Values are decoded on request. A new format of weights belongs in package
// quant, not here.
//
// Why not Ollama's fs/gguf: it trusts counts and lengths up to 16 MiB per string and
// 64 Mi entries per array. It accepts any magic and any version from 2 on. It needs nine
// allocations per token, and opens the file a second time by its name. The tests use it
// as their oracle instead.
//
// # What Open rejects
//
//   - another magic ([ErrMagic]), version 1 or above 3, big-endian files (the error
//     wraps [ErrUnsupported] and names the reason);
//   - counts and lengths beyond the end of the file, unknown value types, arrays of
//     arrays, empty or repeated names of keys and tensors;
//   - more than 16,384 keys, 100,000 tensors, 256 bytes of a name or 40 MiB of keys:
//     far more than published models have, and little enough to read for every model;
//   - tensors of unknown format, with more than four dimensions or an empty one, sizes
//     that overflow, rows of incomplete blocks, misaligned or overlapping data;
//   - files shorter than their tensors need (the error states both sizes);
//   - one part of a split model.
//
// [OpenKeys] stops after the keys. The metadata are enough to decide whether a model is selected,
// also for files whose tensors Open rejects.
//
// # Invariants and cost
//
//   - The bytes of a [Tensor] are in the mapping and valid until [File.Close]. Values of
//     keys are in a copy of the header and stay valid; after [OpenKeys], they must be read
//     before Close.
//   - A File may be read from any goroutine.
//
// Opening a vocabulary of 151936 tokens takes a few milliseconds (BenchmarkOpen).
package gguf
