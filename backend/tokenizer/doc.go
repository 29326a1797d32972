// Package tokenizer turns text into the token ids of a model and back, from the
// vocabulary in its GGUF file: SentencePiece ("llama") and byte-pair encoding
// ("gpt2").
//
// It gives the ids that llama.cpp gives, since Ollama, templates and users
// expect those. It knows no chat template and no model.
//
// # Why not Ollama's tokenizer
//
// Its byte-pair encoder takes pairs of equal rank in an arbitrary order, where
// the leftmost has to come first, so "33333" becomes 33+333 instead of 333+33;
// its patterns take only ASCII for white space; it replaces every word that is
// itself a token, which only some models do. Of llama.cpp's 46 vectors it
// misses 7 for GPT-2, 2 for Qwen2 and 1 for Llama-3. None of that can be mended
// from outside, and with a right loop at hand the same loop serves
// SentencePiece: there the two agree, and Ollama's is the oracle of the tests.
//
// # How it works
//
// Special tokens are cut out of the text first, longer ones before shorter
// ones. What lies between goes through a model's patterns (BPE) or has its
// blanks replaced (SentencePiece), and then neighbours are joined, best pair
// first, until no pair is in the table.
//
// # Differences from llama.cpp, on purpose
//
//   - plain text never yields a control, unknown or byte token, not even when
//     its spelling can be put together from other tokens;
//   - invalid UTF-8 is kept byte for byte instead of becoming U+FFFD;
//   - BPE files that name no BOS or EOS have none (there: token 11);
//   - "</s>" ends a generation only where a key says so (there: wherever a
//     vocabulary has it, and Qwen's has it as a word of HTML);
//   - gpt-4o and tekken use the patterns of the models' own files, which know
//     upper and lower case beyond ASCII; llama.cpp's do not.
//
// # Which models
//
// The families that run here carry: llama, smollm and mistral the "llama" kind
// or the pre-tokenizers llama-bpe, smollm, tekken; qwen2 and qwen3 qwen2;
// gemma3 the "llama" kind without the blank in front; phi3 the "llama" kind,
// whose special tokens swallow white space, phi-4 dbrx and phi-4-mini gpt-4o;
// granite refact. pretokenizers.go lists what else is known, as data; another
// row is all that a new one takes.
//
// # Invariants
//
//   - a vocabulary with all bytes loses nothing: Decode(Encode(text)) is text,
//     after the blank that SentencePiece models put in front; only they read ▁
//     itself as a blank;
//   - a [Tokenizer] never changes, so any number of goroutines may use it.
//
// Encoding is O(n log n) for any text: the patterns run on the standard
// library's engine, which is linear. A chat of 8000 tokens takes 6 to 20 ms on
// one core, a mebibyte of one letter about 2 s (BenchmarkEncode,
// BenchmarkHostile).
package tokenizer
