// Package sampler chooses the next token from a row of logits.
//
// The steps, their order and their meaning follow llama.cpp: mask, penalties, top-k, typical-p,
// top-p, min-p, temperature, one draw. Each filter uses the probabilities of the tokens that the
// filters before it kept. The package holds no model, text or grammar; a grammar is a [Mask].
//
// It differs from llama.cpp in three ways. The generator is PCG, so a seed gives another
// text. Sums are computed in float64, so a nucleus may differ by one token if a float32
// sum rounds across the limit. The mask is applied first, not as a second attempt after
// a rejected token, so each token costs exactly one draw.
//
// # Invariants
//
//   - Equal options, logits, masks and accepted tokens give equal tokens.
//   - A token takes one number from the generator. A greedy token, or a failing Sample,
//     takes none. So decoding with and without drafts draws alike.
//   - Equal logits are ordered by id, the lowest first.
//   - A logit of -Inf is never drawn. If a logit is +Inf, only such tokens are drawn.
//
// # Cost
//
// One pass over the row, at worst O(n log k) with top-k. Without top-k, a heap sorts only
// the tokens that top-p needs. Once warm, nothing is allocated per token.
package sampler
