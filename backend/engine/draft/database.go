package draft

import (
	"log/slog"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/spec"
	"github.com/sdnpu/sdnpu/spec/tokendb"
)

// Database remembers the outputs of earlier requests as tokens: in memory,
// where they end with the process, or on disk. It may be used from several
// goroutines.
type Database struct {
	mu        sync.Mutex // guards all fields
	index     *spec.Index
	maxTokens int
	// next holds the texts that were remembered since index was half full. It
	// replaces a full index at once, so that no request waits.
	next *spec.Index

	// files, if set, are the database; index is not used.
	files         *tokendb.DB
	logger        *slog.Logger
	broken        bool // the files can no longer be read
	conversations conversations
}

// NewDatabase returns an empty database in memory. If it would exceed maxTokens
// tokens, it forgets its older half.
func NewDatabase(maxTokens int) *Database {
	return &Database{index: spec.NewIndex(contextDepth), maxTokens: maxTokens}
}

// OnDisk returns a database in files. The caller closes them after the last
// use. If a file fails, the database logs a warning and drafts continue without
// it.
func OnDisk(files *tokendb.DB, logger *slog.Logger) *Database {
	return &Database{files: files, logger: logger}
}

// Add remembers the output of a successful request.
func (d *Database) Add(tokens []int32) { d.remember(tokens, 0) }

// remember adds the tokens of a text that follow its prompt.
func (d *Database) remember(text []int32, prompt int) {
	d.mu.Lock()
	if d.files == nil {
		defer d.mu.Unlock()
		d.append(text[prompt:])
		return
	}
	broken, conversation := d.broken, uint64(0)
	if !broken {
		conversation = d.conversations.of(text, prompt)
	}
	d.mu.Unlock() // other requests draft while the disk works
	if broken {
		return
	}
	err := d.files.Commit(tokendb.Document{Conversation: conversation, Time: time.Now().Unix(), Tokens: text[prompt:]})
	if err != nil {
		d.logger.Warn("token database: an answer was not remembered", "detail", err)
	}
}

// append adds a text to the index in memory.
func (d *Database) append(tokens []int32) {
	if len(tokens) >= d.maxTokens {
		return // longer than the whole database
	}
	for d.index.Len()+1+len(tokens) > d.maxTokens {
		if d.index, d.next = d.next, nil; d.index == nil {
			d.index = spec.NewIndex(contextDepth)
		}
	}
	if d.next == nil && d.index.Len()+1+len(tokens) > d.maxTokens/2 {
		d.next = spec.NewIndex(contextDepth)
	}
	for _, x := range []*spec.Index{d.index, d.next} {
		if x == nil {
			continue
		}
		x.Append(spec.Separator)
		for _, token := range tokens {
			x.Append(token)
		}
	}
}

// refresh reads what another process has added.
func (d *Database) refresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files != nil && !d.broken {
		d.check(d.files.Refresh())
	}
}

// check logs an error of the files once and stops using them. mu is held.
func (d *Database) check(err error) {
	if err != nil {
		d.broken = true
		d.logger.Warn("token database: it can no longer be read: drafts continue without it", "detail", err)
	}
}

// read calls f. Inside f the database is a source. It reports whether the
// results of f are valid; if not, call it again, and f runs without the
// database.
func (d *Database) read(f func() error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files == nil || d.broken {
		return f() == nil
	}
	d.check(d.files.Read(f))
	return !d.broken
}

// source returns the database as a source, or nil if it cannot be read. mu is
// held.
func (d *Database) source() spec.Source {
	switch {
	case d.broken:
		return nil
	case d.files != nil:
		return d.files
	}
	return d.index
}

// Len returns the number of tokens, including a separator for each text.
func (d *Database) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files != nil {
		s := d.files.Stats()
		return s.Tokens + s.Documents
	}
	return d.index.Len()
}

// shared is a database as a source. It is valid inside the function that
// [Database.read] calls.
type shared struct{ *Database }

// Levels implements [spec.Source].
func (s shared) Levels(context []int32, total, distinct []float32, first []int32) int {
	if source := s.source(); source != nil {
		return source.Levels(context, total, distinct, first)
	}
	return 0
}

// Successor implements [spec.Source].
func (s shared) Successor(at int32) (int32, float32, int32) { return s.source().Successor(at) }
