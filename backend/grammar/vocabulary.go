package grammar

import (
	"bytes"
	"math"
	"slices"
)

// Vocabulary is the vocabulary of a model as a tree of bytes: tokens that begin alike
// share the beginning. A Vocabulary does not change, so any number of goroutines may use
// it.
type Vocabulary struct {
	pieces [][]byte // pieces holds the bytes of each token; empty if no grammar matches the token
	ends   []int32  // ends holds the tokens that end a text
	isEnd  []bool   // by token
	nodes  []treeNode
	same   []int32 // same holds, by token, another token with the same bytes, or -1
	deep   int     // deep is the height of the tree
	plain  []*Mask // plain holds the sets of tokens of plain characters, by index of plainLevels
}

// treeNode is a node of the vocabulary's tree. Nodes are in the order of a walk that
// visits a node before its children.
type treeNode struct {
	after int32 // after is the index of the first node that is not below this node
	token int32 // token is a token that ends at this node, or -1
	depth uint16
	value byte
	// plain is the largest plainLength of all tokens at and below this node.
	plain uint8
}

// NewVocabulary prepares a vocabulary of size tokens. piece returns the bytes that a
// token adds to the text; a token without bytes is never allowed, except for those that
// end the text. NewVocabulary keeps the slices that the function piece returns.
func NewVocabulary(size int, piece func(token int32) []byte, ends func(token int32) bool) *Vocabulary {
	v := &Vocabulary{pieces: make([][]byte, size), isEnd: make([]bool, size), same: make([]int32, size)}
	order := make([]int32, 0, size)
	for t := range int32(size) {
		v.same[t] = -1
		if ends(t) {
			v.ends, v.isEnd[t] = append(v.ends, t), true
		} else if p := piece(t); len(p) > 0 && len(p) < math.MaxUint16 {
			v.pieces[t] = p
			order = append(order, t)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return bytes.Compare(v.pieces[a], v.pieces[b]) })
	v.build(order)
	for range plainLevels {
		v.plain = append(v.plain, newMask(size))
	}
	for _, t := range order {
		length := int(plainLength(v.pieces[t]))
		for i, level := range plainLevels {
			if length <= level {
				v.plain[i].set(t)
			}
		}
	}
	return v
}

// build makes the vocabulary's tree of the tokens, which are in the order of their
// bytes.
func (v *Vocabulary) build(order []int32) {
	var path []int32 // path holds the nodes of the last token's bytes
	var last []byte
	closeTo := func(depth int) {
		for len(path) > depth {
			n := &v.nodes[path[len(path)-1]]
			n.after = int32(len(v.nodes))
			path = path[:len(path)-1]
			if len(path) > 0 {
				parent := &v.nodes[path[len(path)-1]]
				parent.plain = max(parent.plain, n.plain)
			}
		}
	}
	for _, t := range order {
		p := v.pieces[t]
		common := 0
		for common < len(last) && common < len(p) && last[common] == p[common] {
			common++
		}
		closeTo(common)
		for i := common; i < len(p); i++ {
			path = append(path, int32(len(v.nodes)))
			v.nodes = append(v.nodes, treeNode{token: -1, depth: uint16(i), value: p[i]})
		}
		n := &v.nodes[path[len(p)-1]]
		v.same[t], n.token = n.token, t
		n.plain = max(n.plain, plainLength(p))
		last, v.deep = p, max(v.deep, len(p))
	}
	closeTo(0)
}

// Split returns tokens whose bytes together are text, the longest possible token first.
// If some bytes of the text are in no token, Split leaves out the text from there on.
func (v *Vocabulary) Split(text []byte) (tokens []int32) {
	for len(text) > 0 {
		token, length := v.longest(text)
		if length == 0 {
			break
		}
		tokens, text = append(tokens, token), text[length:]
	}
	return tokens
}

// longest returns the longest token with which a text begins.
func (v *Vocabulary) longest(text []byte) (token int32, length int) {
	for i, end := 0, len(v.nodes); i < end; {
		n := &v.nodes[i]
		if int(n.depth) == len(text) || n.value != text[n.depth] {
			i = int(n.after)
			continue
		}
		if n.token >= 0 {
			token, length = n.token, int(n.depth)+1
		}
		end = int(n.after) // no node from n.after on has bytes that begin like the bytes of node n
		i++
	}
	return token, length
}

// Size returns the number of tokens in the vocabulary.
func (v *Vocabulary) Size() int { return len(v.pieces) }
