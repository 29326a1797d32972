// Package sampler chooses the next token from a row of logits.
//
// The steps, their order and their meaning are llama.cpp's: mask, penalties,
// top-k, typical-p, top-p, min-p, temperature, one draw. Each filter takes the
// probabilities of what the filters before it left. It holds no model and no
// text: grammars come in as a [Mask].
//
// Three things differ from llama.cpp on purpose. The generator is PCG, so a
// seed does not give the text it gives there. Sums run in float64, so a
// nucleus may differ by one token where llama.cpp's float32 sum rounds across
// the limit. And a mask is applied before everything else and not as a second
// try after a refused token, so that a token costs exactly one draw.
//
// # Invariants
//
//   - the same options, logits, masks and accepted tokens give the same tokens;
//   - a token takes one number from the generator, none when it is greedy or
//     when Sample fails: drafted and plain decoding draw alike;
//   - equal logits are ordered by id, the lowest first;
//   - a logit of -Inf is never drawn, a logit of +Inf only beside its equals.
//
// # Cost
//
// One pass over the row, O(n log k) at worst with top-k on; with top-k off a
// heap gives up only as many tokens as top-p asks for. Nothing is allocated
// per token once the scratch has grown.
package sampler
