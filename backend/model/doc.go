// Package model writes the transformers of GGUF files as graphs.
//
// [Load] checks a file and remembers where its weights are. [Model.Block] then
// writes a run of layers, and [Model.Head] the way from the last hidden state
// to logits, as a [backend.Graph] of any number of rows. What a program on the
// host does better than a graph, looking up embeddings and the angles of RoPE,
// is [Model.Embed] and [View.Rope]. The package runs nothing, keeps no cache
// and knows no device; sequences, masks and positions are the caller's.
//
// # A family
//
// llama, qwen2, qwen3, gemma3, phi3 and granite are values of one type, each in
// a file of its own: which tensors play which role, which keys a file may hold
// and what they mean, the gate's activation. One writer writes the layers of
// all: it normalises, adds a bias or turns a part of a head where the family
// has a tensor or a number for it. The next family is a file and its line in
// the table of architecture.go. testdata holds what an independent
// implementation computed for each.
//
// # A block
//
// M is the number of rows, C the number of past slots, T = C+M, D the size of
// a head, R ≤ D the elements of it that turn, g the number of query heads that
// share a key head. All elements have
// the recipe's activation type, those of keys and values its cache type.
//
//	in   x       [M,hidden]             hidden states
//	     cos sin [1,1,M,R/2]            angles of the rows' positions
//	     mask    [1,1,g·M,T]            0 where a row sees a slot, else MaskValue
//	     cos_local sin_local mask_local the same for layers of another [View]
//	     past k v of each layer [1,KVHeads,C,D]
//	out  new  k v of each layer [1,KVHeads,M,D]
//	     y       [M,hidden]
//
// Slots stand in the mask's columns: first the past ones, then the M new rows.
// The cache is the caller's: the graph reads past slots and returns the new
// rows' keys (already rotated) and values, which the caller stores where it
// likes. A row that sees no slot at all has no meaning; let padding see itself.
//
// # Why the graph looks as it does
//
//   - Heads that share keys are stacked as rows, so that one multiplication
//     per layer scores them all. The scores keep the shape [1,KVHeads,g·M,T]
//     from the first to the second multiplication: reshaping them around the
//     softmax costs a quarter of a block's time on the NPU. Hence the mask's
//     odd shape: row group·M+m is row m, the same for every group.
//   - 1/√D is applied to the rotated queries, not to the scores: that tensor is
//     smaller by T/D, and unscaled scores of large models overflow float16.
//   - With activations of 16-bit integers, graphs of 2 to 64 rows have other shapes
//     around queries, angles and what attention gives, in which the NPU takes 2 to
//     6 % less time for a layer of 32 rows. No bit changes by it.
//   - RoPE always pairs element j with j+R/2 and is written in pieces, which
//     every version of the vendor's library computes. Files of architecture
//     llama hold the rows of Q and K for pairs of neighbours; those rows are
//     reordered when the weights are converted. Scores do not change, since
//     queries and keys are reordered alike.
//   - Hidden states have rank 2. The vendor's validation refuses a
//     FullyConnected that keeps rank 3 ("keep_dims … expected equal to 0"), and
//     its float16 RmsNorm is wrong for rank 4.
//   - What a family multiplies activations by stands in the weights before
//     them: residuals in those of attn_output and ffn_down, logits in the final
//     norm. Embeddings are scaled when they are looked up.
//   - Q, K and V, or gate and up, that a file holds in one tensor are
//     projections of their own here: slices of a joint result would be copies.
//   - Every RmsNorm has an all-zero beta, without which older versions of the
//     vendor's library fail, and every projection is a FullyConnected.
//
// # Weights
//
// A graph's constants are read from the mapped file, dequantised and converted
// a few kilobytes at a time when a device asks for them. Their IDs name file, tensor,
// order of rows, scale and type, so graphs of different row counts share them. A
// weight that is not finite or does not fit the type is an error, never a
// saturated number.
//
// # Invariants
//
//   - what a file asks for and this package does not compute is refused: an
//     unknown hyper-parameter, an extra tensor, a rope scaling that is neither
//     linear nor given as factors. Wrong text is worse than none;
//   - equal files and arguments give graphs of equal [backend.Graph.Digest];
//   - a Model never changes and may be used from any goroutine.
package model
