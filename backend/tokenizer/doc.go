// Package tokenizer converts text to the token ids of a model and back. The
// tokenizer reads the vocabulary in the model's GGUF file: SentencePiece ("llama"),
// byte-pair encoding ("gpt2"), WordPiece ("bert") or Unigram ("t5").
//
// The tokenizer returns the same ids as llama.cpp, because Ollama, templates and users
// expect them. Package tokenizer does not use chat templates and does not depend on
// package model.
//
// # Why Ollama's tokenizer is not used
//
// Ollama's byte-pair encoder takes pairs of equal rank in arbitrary order and not the
// leftmost first, so "33333" becomes 33+333 instead of 333+33. Ollama's patterns recognise
// only ASCII white space. Ollama replaces every word that is itself a token, although only
// some models do so. Of the 46 test vectors of llama.cpp, Ollama's tokenizer fails 7 for
// GPT-2, 2 for Qwen2 and 1 for Llama-3. If Ollama's tokenizer returned wrong ids, sdnpu
// could not correct them. The loop of package tokenizer that joins pairs also serves
// SentencePiece. For SentencePiece, Ollama's tokenizer gives the same ids, and the tests
// compare with it.
//
// # How it works
//
// As the first step of encoding, special tokens are cut out of the text, longer
// spellings before shorter ones. As the second step of encoding, the patterns of the
// model split the remaining text into words (BPE), or its blanks are replaced
// (SentencePiece). As the third step of encoding, neighbouring tokens are joined, the
// best pair first, until no pair is in the table of merges.
//
// A Unigram tokenizer joins no pairs. The tokenizer normalises the text with the table of the
// file (the precompiled charsmap), and then finds the tokens with the largest sum of scores
// (the Viterbi algorithm). A character that is no token gets a score 10 below the smallest
// score, and neighbouring characters of this kind become one unknown token. As in llama.cpp, a
// Unigram tokenizer never uses byte tokens.
//
// # Intended differences from llama.cpp
//
//   - Plain text never gives a control, unknown or byte token. If ordinary tokens together
//     spell a control token, they stay ordinary tokens.
//   - Invalid UTF-8 is kept byte for byte; in llama.cpp it becomes U+FFFD. Of the
//     tokenizers of this package, only Unigram replaces invalid UTF-8 by U+FFFD.
//   - If a BPE file names no BOS or EOS, the tokenizer has none; llama.cpp uses token 11.
//   - The token "</s>" ends a generation only if a key of the file says so.
//     In llama.cpp, "</s>" ends a generation in every vocabulary that contains it, although
//     Qwen's contains it as a word of HTML.
//   - The pre-tokenizers gpt-4o and tekken use the patterns of the models' own files. Unlike
//     llama.cpp's patterns, the models' own patterns distinguish upper and lower case outside
//     ASCII.
//
// # Which models
//
// The list below names the tokenizer of each supported family.
//
//   - llama, smollm and mistral have the kind "llama", or the pre-tokenizer llama-bpe, smollm or tekken.
//   - qwen2 and qwen3 have the pre-tokenizer qwen2.
//   - gemma3 has the kind "llama" without a leading blank.
//   - phi3 has the kind "llama", with special tokens that include the white space after them.
//   - phi-4 has the pre-tokenizer dbrx, and phi-4-mini has gpt-4o.
//   - granite has the pre-tokenizer refact.
//   - bert and nomic-bert have the kind "bert". Models made from XLM-RoBERTa, such as bge-m3 and
//     multilingual-e5, have the architecture bert and the kind "t5".
//
// The file pretokenizers.go lists all known pre-tokenizers as data; a new pre-tokenizer needs
// only a row in this list.
//
// # Invariants
//
//   - WordPiece loses case, accents and the amount of white space.
//   - Unigram loses what its table replaces, unknown characters, and often the amount of white space.
//   - BPE and SentencePiece vocabularies with a token for every byte can represent every
//     text exactly. Decode(Encode(text)) is text, after the leading blank of SentencePiece
//     models. Only SentencePiece models read the character ▁ itself as a blank.
//   - A [Tokenizer] does not change, so any number of goroutines may use it.
//
// # Cost
//
// Encoding n bytes takes O(n log n) for any text: the patterns run on the standard library's
// regular expressions, which take linear time. For n bytes, Unigram takes O(n × l), where l is
// the length of the longest token or replaced text. On one core, a chat of 8000 tokens takes 6
// to 20 ms and a mebibyte of one letter about 2 s (BenchmarkEncode, BenchmarkHostile).
package tokenizer
