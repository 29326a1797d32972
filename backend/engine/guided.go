package engine

import (
	"errors"
	"fmt"

	"github.com/sdnpu/sdnpu/backend/grammar"
	"github.com/sdnpu/sdnpu/backend/sampler"
	"github.com/sdnpu/sdnpu/spec"
)

// grammarMask is the mask of a request that follows a grammar.
type grammarMask struct{ *grammar.Matcher }

// Accept implements [sampler.Mask].
func (m grammarMask) Accept(token int32) { m.Matcher.Accept(token) }

// Count implements [sampler.Counter].
func (m grammarMask) Count() int { return m.Mask().Count() }

// Only implements [sampler.Counter].
func (m grammarMask) Only() (token int32, ok bool) { return m.Mask().Only() }

// vocabularyOf prepares, for grammars, the tokens that have logits.
func (e *Engine) vocabularyOf() *grammar.Vocabulary {
	return grammar.NewVocabulary(min(e.tokenizer.VocabSize(), e.config.Vocab), e.tokenizer.Piece, e.tokenizer.IsEOG)
}

// followGrammar makes the request's grammar its sampling mask. If the grammar does not
// allow any token to begin with, followGrammar returns an error.
func (g *generation) followGrammar() error {
	if g.request.Grammar == nil {
		return nil
	}
	if g.request.Mask != nil {
		return fmt.Errorf("engine: %w: a request has a grammar or a mask, not both", ErrRequest)
	}
	g.matcher = g.request.Grammar.NewMatcher(g.engine.vocabulary())
	if g.matcher.Mask().Count() == 0 {
		return fmt.Errorf("engine: %w: %w", ErrRequest, g.noToken())
	}
	g.request.Mask = grammarMask{g.matcher}
	return nil
}

// noToken returns the reason why a grammar allows no token.
func (g *generation) noToken() error {
	if err := g.matcher.Err(); err != nil {
		return err
	}
	return errors.New("the grammar cannot begin with any token of this model's vocabulary")
}

// stuck reports whether the grammar allows no token, although it may not end: its rules
// lead to a character that the vocabulary does not have, or to too much work.
func (g *generation) stuck() bool { return g.matcher != nil && g.matcher.Mask().Count() == 0 }

// forcedScore estimates the probability that the model spells forced text with
// the same tokens as the draft.
const forcedScore = 0.95

// guideDrafts fits the proposed drafts to the request's grammar: it removes drafts that
// the grammar does not allow, and adds the text that the grammar forces.
func (g *generation) guideDrafts(rows int) {
	if g.matcher == nil {
		return
	}
	var forced, guided spec.Tree
	g.forcedDrafts(&forced, rows)
	matchers := make([]*grammar.Matcher, g.tree.Len())
	// places holds, for each row of the proposed tree, the number of the same draft's row
	// in the tree named guided
	places := make([]int32, g.tree.Len())
	next, last := 0, spec.None
	for i, token := range g.tree.Tokens {
		for next < forced.Len() && forced.Scores[next] >= g.tree.Scores[i] {
			last = addDraft(&guided, forced.Tokens[next], last, forced.Scores[next])
			next++
		}
		m, parent := g.matcher, g.tree.Parents[i]
		if parent != spec.None {
			m, parent = matchers[parent], places[parent]
		}
		if m == nil {
			continue
		}
		if m = m.Clone(); m.Accept(token) {
			matchers[i], places[i] = m, addDraft(&guided, token, parent, g.tree.Scores[i])
		}
	}
	for ; next < forced.Len(); next++ {
		last = addDraft(&guided, forced.Tokens[next], last, forced.Scores[next])
	}
	*g.tree = *guided.Head(min(guided.Len(), rows))
}

// addDraft returns the row of a draft in the tree, and adds the draft if the tree does
// not have it.
func addDraft(t *spec.Tree, token, parent int32, score float32) int32 {
	if row := t.Child(parent, token); row != spec.None {
		return row
	}
	if parent != spec.None {
		score = min(score, t.Scores[parent])
	}
	return t.Add(token, parent, score)
}

// forcedDrafts adds the text that the grammar forces to the draft tree, as one path.
func (g *generation) forcedDrafts(t *spec.Tree, rows int) {
	score, parent := float32(1), spec.None
	for _, token := range g.engine.vocabulary().Split(g.matcher.Forced()) {
		if t.Len() == rows {
			return
		}
		score *= forcedScore
		parent = t.Add(token, parent, score)
	}
}

var _ sampler.Counter = grammarMask{}
