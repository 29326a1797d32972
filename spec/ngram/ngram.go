// Package ngram hashes contexts: the last tokens of a text, from the newest to
// the oldest. One pass over a context gives the hashes of all its suffixes.
//
// spec, spec/tokendb and calibration keep tables of contexts that are addressed by
// these hashes. The tables differ in what they store, so each package has its own.
//
// # Invariants
//
//   - Equal contexts have equal hashes on every machine and in every version: files
//     of spec/tokendb hold checks and are addressed by [Slot].
//   - Two contexts may share a check, with a probability of 2^-31. Drafts then get
//     worse, and texts stay right.
//
// Extending a hash costs one multiplication. Nothing is allocated.
package ngram

// Hash is the hash of a context.
type Hash uint64

// Empty is the hash of the empty context.
const Empty Hash = 0x9e3779b97f4a7c15

// Extend returns the hash of the context with one more, older token.
func (h Hash) Extend(token int32) Hash {
	h = (h ^ Hash(uint32(token))) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

// Check returns the part of the hash that tables store. It is never 0, so 0 can
// mark an empty slot.
func (h Hash) Check() uint32 { return uint32(h>>32) | 1 }

// Slot returns the slot at which the search for a check begins in an
// open-addressed table with the given number of slots. It depends on the check
// alone, so a table can grow without the text. The search continues with the next
// slots and wraps around.
func Slot(check uint32, slots int) int {
	return int(uint64(check*0x9e3779b1) * uint64(slots) >> 32)
}

// End is the place after the last entry of a list of successors.
const End int32 = -1 << 31
