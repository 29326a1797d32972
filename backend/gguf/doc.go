// Package gguf reads GGUF model files, even hostile ones, and writes small ones.
//
// Package gguf maps the file into memory (package mapped) and reads its header once.
// Every count, length and offset of the header is checked before it is used, and no
// allocation is larger than the file justifies. Values of keys are decoded when the
// caller asks for them. To add a format of weights, change package quant, not package
// gguf.
//
// Ollama's package fs/gguf is not used here, because it trusts counts and lengths up to
// 16 MiB per string and 64 Mi entries per array. Ollama's package also accepts any
// magic number, and any version from 2 on. Ollama's package makes nine allocations per
// token, and opens the file a second time by name. The tests compare package gguf with
// Ollama's package.
//
// # What Open rejects
//
//   - another magic ([ErrMagic]), version 1 or above 3, big-endian files (the error
//     wraps [ErrUnsupported] and names the reason);
//   - counts and lengths beyond the end of the file, unknown value types, arrays of
//     arrays, empty or repeated names of keys and tensors;
//   - more than 16,384 keys, 100,000 tensors, 256 bytes of a name or 40 MiB of keys: far more
//     than published models have, and few enough bytes that Open can read them for every model;
//   - tensors of unknown format, with more than four dimensions or an empty one, with a size that
//     overflows, rows of incomplete blocks, misaligned or overlapping data;
//   - files shorter than their tensors need (the error states both sizes);
//   - one part of a split model.
//
// [OpenKeys] reads only the keys, not the tensors. The keys of a file are enough to
// decide whether a model is selected for the NPU, also if the file has tensors that
// Open rejects.
//
// # Invariants and cost
//
//   - The bytes of a [Tensor] are in the mapping and valid until [File.Close]. Values of
//     keys are in a copy of the header and stay valid; after [OpenKeys], they must be read
//     before Close.
//   - A File may be read from any goroutine.
//
// Opening a file with a vocabulary of 151936 tokens takes a few milliseconds
// (BenchmarkOpen).
package gguf
