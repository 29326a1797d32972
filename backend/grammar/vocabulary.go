package grammar

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

// Vocabulary is the vocabulary of a model, prepared for masks. A Vocabulary does not
// change, so any number of goroutines may use it.
type Vocabulary struct {
	pieces [][]byte // pieces holds the bytes of each token; empty if no grammar matches the token
	ends   []int32  // ends holds the tokens that end a text
	isEnd  []bool   // isEnd reports, by token, whether the token is in the list `ends`
	all    *tree
	plainTokens
}

// NewVocabulary prepares a vocabulary of `size` tokens. The function `piece` returns the bytes
// that a token adds to the text, and `ends` reports whether a token ends the text. A mask never
// allows a token that has no bytes and does not end the text. NewVocabulary keeps the slices that
// the function `piece` returns.
func NewVocabulary(size int, piece func(token int32) []byte, ends func(token int32) bool) *Vocabulary {
	v := &Vocabulary{pieces: make([][]byte, size), isEnd: make([]bool, size)}
	order := make([]int32, 0, size)
	for t := range int32(size) {
		if ends(t) {
			v.ends, v.isEnd[t] = append(v.ends, t), true
		} else if p := piece(t); len(p) > 0 && len(p) < math.MaxUint16 {
			v.pieces[t] = p
			order = append(order, t)
		}
	}
	v.all = newTree(order, v.pieces)
	v.preparePlain(order)
	return v
}

// Split returns tokens whose bytes together are text, the longest possible token first. If a
// byte of the text is in no token, Split leaves out the text from that byte on.
func (v *Vocabulary) Split(text []byte) (tokens []int32) {
	for len(text) > 0 {
		token, length := v.all.longest(text)
		if length == 0 {
			break
		}
		tokens, text = append(tokens, token), text[length:]
	}
	return tokens
}

// Size returns the number of tokens in the vocabulary.
func (v *Vocabulary) Size() int { return len(v.pieces) }

// tree is a tree of bytes: tokens that begin alike share the beginning. The first node of a
// vocabulary's tree is the root.
type tree struct {
	nodes  []treeNode
	values []byte  // values holds the last byte of each node
	order  []int32 // order holds the tokens, ascending by their bytes
}

// treeNode stands for the bytes with which some tokens of the vocabulary begin. The
// children of a node are neighbours in the tree, so that a mask reads little memory.
type treeNode struct {
	first int32  // first is the index of the node's first child
	count uint16 // count is the number of the node's children
	// plain is the largest number of plain characters in a token at or below this node, or
	// notPlain. rest is the largest number of plain characters that follow this node in a
	// token, or notPlain (see plainLengths).
	plain, rest uint8
	// The tokens at and below a node are order[lo:hi] of the tree; those that end at the
	// node are order[lo:own].
	lo, own, hi int32
}

// newTree returns the tree of some tokens. newTree sorts the tokens by their bytes, and tokens
// with equal bytes by ascending number.
func newTree(order []int32, pieces [][]byte) *tree {
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(bytes.Compare(pieces[a], pieces[b]), cmp.Compare(a, b)) })
	t := &tree{order: order, values: []byte{0}, nodes: []treeNode{{hi: int32(len(order))}}}
	lengths := make([][]uint8, len(order)) // lengths holds what plainLengths writes for each token
	size := 0
	for _, token := range order {
		size += len(pieces[token]) + 1
	}
	room := make([]uint8, size)
	for i, token := range order {
		n := len(pieces[token]) + 1
		lengths[i], room = room[:n], room[n:]
		plainLengths(pieces[token], lengths[i])
	}
	depths := []int{0}
	for i := 0; i < len(t.nodes); i++ {
		n, depth := &t.nodes[i], depths[i]
		n.first = int32(len(t.nodes))
		for n.own = n.lo; n.own < n.hi && len(pieces[order[n.own]]) == depth; n.own++ {
		}
		for j := n.lo; j < n.hi; j++ {
			n.plain, n.rest = max(n.plain, lengths[j][0]), max(n.rest, lengths[j][depth])
		}
		from, to := n.own, n.hi
		for from < to {
			child := treeNode{lo: from}
			value := pieces[order[from]][depth]
			for from < to && pieces[order[from]][depth] == value {
				from++
			}
			child.hi = from
			t.nodes[i].count++
			t.nodes, t.values, depths = append(t.nodes, child), append(t.values, value), append(depths, depth+1)
		}
	}
	return t
}

// longest returns the longest token with which a text begins.
func (t *tree) longest(text []byte) (token int32, length int) {
	n := &t.nodes[0]
	for i, value := range text {
		at := bytes.IndexByte(t.values[n.first:n.first+int32(n.count)], value)
		if at < 0 {
			break
		}
		if n = &t.nodes[n.first+int32(at)]; n.own > n.lo {
			// A vocabulary may hold a byte token and an ordinary token with equal bytes. Split
			// chooses the ordinary token, which comes last in `order`, because tokenizers prefer
			// ordinary tokens.
			token, length = t.order[n.own-1], i+1
		}
	}
	return token, length
}
