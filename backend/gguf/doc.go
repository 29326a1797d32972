// Package gguf reads GGUF model files without trusting them, and writes small
// ones.
//
// A file is mapped (package mapped) and its header walked once over the mapped
// bytes. The walk checks every count, length and offset before it is used, and
// allocates only for what the file really holds; values are decoded when they
// are asked for. Ollama's fs/gguf, which could read the values, takes counts and
// lengths on trust up to 16 MiB a string and 64 Mi entries an array, any magic
// and any version from 2 on, needs nine allocations a token, and opens the file
// a second time by its name; it is the oracle of the tests instead. Opening a
// vocabulary of 151936 tokens takes a few milliseconds (BenchmarkOpen).
//
// # What Open refuses
//
//   - another magic ([ErrMagic]), version 1 or above 3, big-endian files
//     ([ErrUnsupported] names which);
//   - counts, string and array lengths beyond the end of the file, unknown
//     value types, arrays of arrays, empty or repeated keys and tensor names;
//   - tensors of unknown format, more than four or empty dimensions, sizes that
//     overflow, rows of broken blocks, misaligned or overlapping data;
//   - files shorter than their tensors need; the error states both sizes;
//   - one part of a split model.
//
// [OpenKeys] stops after the keys: enough to see whether a model is ours, also
// for files whose tensors we cannot read.
//
// # Lifetime
//
// The bytes of a [Tensor] lie in the mapping and end with [File.Close]; values
// of keys lie in a copy of the header and stay. A File may be read by any number of goroutines.
package gguf
