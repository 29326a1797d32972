package draft

import (
	"sync"

	"github.com/sdnpu/sdnpu/spec"
)

// Database remembers what a model said in earlier requests, as tokens, in
// memory. It ends with the process. It may be used from several goroutines.
type Database struct {
	mu        sync.Mutex
	index     *spec.Index
	maxTokens int
}

// NewDatabase returns an empty database that forgets the older half of its
// texts when it would hold more than maxTokens tokens.
func NewDatabase(maxTokens int) *Database {
	return &Database{index: spec.NewIndex(contextDepth), maxTokens: maxTokens}
}

// Add remembers a text that ended well.
func (d *Database) Add(tokens []int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(tokens) >= d.maxTokens {
		return // longer than all it may hold
	}
	if d.index.Len()+len(tokens) >= d.maxTokens {
		d.forgetHalf()
	}
	d.append(tokens)
}

func (d *Database) append(tokens []int32) {
	d.index.Append(spec.Separator)
	for _, token := range tokens {
		d.index.Append(token)
	}
}

// forgetHalf keeps the texts that begin in the newer half.
func (d *Database) forgetHalf() {
	old := d.index.Text()
	keep := old[len(old)/2:]
	for len(keep) > 0 && keep[0] >= 0 {
		keep = keep[1:]
	}
	d.index = spec.NewIndex(contextDepth)
	for _, token := range keep {
		d.index.Append(token)
	}
}

// Len is the number of tokens that it holds.
func (d *Database) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.index.Len()
}
