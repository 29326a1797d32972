// Package gguf reads GGUF model files without trusting them, and writes small
// ones.
//
// A file is mapped (package mapped), its header is walked once over the mapped
// bytes, and only a header that passed every check is handed to Ollama's
// fs/gguf, which reads the values. That reader cannot be given a hostile file:
// it takes counts and lengths on trust up to 16 MiB a string and 64 Mi entries
// an array before it finds the file too short, takes any magic and any version
// from 2 on, and finds a wrong tensor only when its data is asked for. The walk
// allocates only for what the file really holds. Opening a vocabulary of 151936
// tokens takes about 0.1 s on one core, nearly all of it in that reader.
//
// The table of tensors comes from the walk itself: its checks need every field
// of it, absolute offsets, and formats that the other reader refuses to size.
//
// # What Open refuses
//
//   - another magic, version 1 or above 3, big-endian files ([ErrUnsupported]
//     names which);
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
// of keys are copies. A File may be read by any number of goroutines.
package gguf
