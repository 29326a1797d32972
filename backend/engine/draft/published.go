package draft

import (
	"github.com/sdnpu/sdnpu/calibration"
	"github.com/sdnpu/sdnpu/spec"
)

// What sources count for in the published tree, and how a draft's score falls
// from token to token: a match of l tokens begins with l/(l+1).
const (
	publishedDatabase, publishedCalibration, publishedReuse = 0.8, 0.9, 0.7
	publishedStep                                           = 0.9
	// publishedBias is by how many tokens a match in the database must be longer
	// than one in the text, publishedTokens the longest draft.
	publishedBias, publishedTokens = 5, 40
	// publishedChildren bounds the alternatives after one token.
	publishedChildren = 4
)

// published drafts as the papers do (algorithms.md B, C, D, column "paper"):
// the text after the longest match in context or database, two steps of
// calibration behind the last token, reused drafts behind the likeliest one, in
// a tree by fixed scores. Nothing is learned. It is here to be compared with.
type published struct {
	mode      Mode
	database  shared
	automaton *spec.Automaton
	anchors   *calibration.Anchors
	reuse     reuse
	prompt    int
	// trie holds all candidates; chosen is the row that one has become.
	trie   spec.Tree
	chosen []int32
	levels [3][contextDepth + 2]float32
	first  [contextDepth + 2]int32
	path   []int32
	end    []int32
}

func newPublished(m Mode, database *Database) *published {
	return &published{mode: m, database: shared{database}, automaton: spec.NewAutomaton(nil), anchors: calibration.NewAnchors()}
}

func (p *published) begin(prompt []int32) {
	p.automaton.Reset()
	p.anchors.Reset()
	p.reuse.reset()
	p.prompt = len(prompt)
}

// commit appends to the text.
func (p *published) commit(token int32) { p.automaton.Append(token) }

// observe takes positions of the prompt alone.
func (p *published) observe(position int, token int32, tokens []int32, probabilities []float32) {
	if position < p.prompt {
		p.anchors.Observe(token, tokens, probabilities)
	}
}

// propose fills an empty tree, within a read of the database.
func (p *published) propose(t *spec.Tree, text []int32, rows int) {
	p.trie.Reset()
	p.match(text)
	if p.mode.Calibration {
		p.anchors.Tree(text[len(text)-1], spec.None, func(token, parent int32, score float32) int32 {
			return p.add(token, parent, publishedCalibration*score)
		})
	}
	if p.mode.Extension {
		p.reuse.step(text)
		for i := range p.reuse.segments {
			s := &p.reuse.segments[i]
			parent, score := p.best()
			for _, token := range s.tokens[s.next:] {
				parent = p.add(token, parent, min(score, publishedReuse*s.worth()))
			}
		}
	}
	p.choose(t, rows)
}

// match adds what follows the longest match.
func (p *published) match(text []int32) {
	length, next := p.automaton.LongestMatch()
	if known := p.known(text); p.mode.Database && known >= 2 && known > length+publishedBias {
		p.copyDatabase(text, float32(known))
		return
	}
	if length == 0 {
		return
	}
	score, parent := float32(length)/float32(length+1), spec.None
	for _, token := range text[next:min(next+publishedTokens, len(text))] {
		parent = p.add(token, parent, score)
		score *= publishedStep
	}
}

// known is the length of the longest end of the text that the database holds, as
// far as it looks.
func (p *published) known(text []int32) int {
	if !p.mode.Database {
		return 0
	}
	p.path = p.path[:0]
	for i := len(text) - 1; i >= 0 && len(p.path) < contextDepth; i-- {
		p.path = append(p.path, text[i])
	}
	return p.database.Levels(p.path, p.levels[0][:], p.levels[1][:], p.first[:]) - 1
}

// copyDatabase adds the most frequent way on in the database.
func (p *published) copyDatabase(text []int32, known float32) {
	p.end = append(p.end[:0], text[max(0, len(text)-contextDepth):]...)
	score, parent := publishedDatabase*known/(known+1), spec.None
	for range publishedTokens {
		n := p.known(p.end)
		if n < 1 || p.first[n] == spec.End {
			return
		}
		token, _, _ := p.database.Successor(p.first[n])
		if token < 0 {
			return // the text ends
		}
		parent = p.add(token, parent, score)
		score *= publishedStep
		p.end = append(p.end, token)
	}
}

// add adds a candidate, or raises one that is there.
func (p *published) add(token, parent int32, score float32) int32 {
	if parent != spec.None {
		score = min(score, p.trie.Scores[parent])
	}
	if at := p.trie.Child(parent, token); at != spec.None {
		p.trie.Scores[at] = max(p.trie.Scores[at], score)
		return at
	}
	return p.trie.Add(token, parent, score)
}

// best is the end of the way that follows the best child from the root on.
func (p *published) best() (row int32, score float32) {
	row, score = spec.None, 1
	for {
		next := spec.None
		for i := row + 1; i < int32(p.trie.Len()); i++ {
			if p.trie.Parents[i] == row && (next == spec.None || p.trie.Scores[i] > p.trie.Scores[next]) {
				next = i
			}
		}
		if next == spec.None {
			return row, score
		}
		row, score = next, p.trie.Scores[next]
	}
}

// choose takes the best candidates, parents first.
func (p *published) choose(t *spec.Tree, rows int) {
	p.chosen = p.chosen[:0]
	for range p.trie.Len() {
		p.chosen = append(p.chosen, spec.None)
	}
	for t.Len() < rows {
		best := spec.None
		for i, parent := range p.trie.Parents {
			open := p.chosen[i] == spec.None && (parent == spec.None || p.chosen[parent] != spec.None)
			if open && (best == spec.None || p.trie.Scores[i] > p.trie.Scores[best]) && p.children(t, parent) < publishedChildren {
				best = int32(i)
			}
		}
		if best == spec.None {
			return
		}
		parent := p.trie.Parents[best]
		if parent != spec.None {
			parent = p.chosen[parent]
		}
		p.chosen[best] = t.Add(p.trie.Tokens[best], parent, p.trie.Scores[best])
	}
}

// children counts the rows below a candidate.
func (p *published) children(t *spec.Tree, parent int32) (n int) {
	if parent != spec.None {
		parent = p.chosen[parent]
	}
	for _, other := range t.Parents {
		if other == parent {
			n++
		}
	}
	return n
}
