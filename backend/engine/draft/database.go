package draft

import (
	"log/slog"
	"sync"
	"time"

	"github.com/sdnpu/sdnpu/spec"
	"github.com/sdnpu/sdnpu/spec/tokendb"
)

// Database remembers what a model said in earlier requests, as tokens: in
// memory, where it ends with the process, or on disk. It may be used from
// several goroutines.
type Database struct {
	mu        sync.Mutex
	index     *spec.Index
	maxTokens int
	// next holds the texts that were remembered since index was half full: it takes
	// the place of an index that is full, at once, so that no request waits.
	next *spec.Index

	// files, when set, are the database, and index is not used.
	files         *tokendb.DB
	logger        *slog.Logger
	broken        bool // the files cannot be read any more
	conversations conversations
}

// NewDatabase returns an empty database in memory that holds at most maxTokens
// tokens: when it is full, its older half is forgotten.
func NewDatabase(maxTokens int) *Database {
	return &Database{index: spec.NewIndex(contextDepth), maxTokens: maxTokens}
}

// OnDisk returns a database that is kept in files, which the caller closes after
// the last use. What goes wrong with them ends no request: logger is told, and
// drafts go on without.
func OnDisk(files *tokendb.DB, logger *slog.Logger) *Database {
	return &Database{files: files, logger: logger}
}

// Add remembers a text that ended well.
func (d *Database) Add(tokens []int32) { d.remember(tokens, 0) }

// remember keeps what a text says behind its prompt.
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
	d.mu.Unlock() // others go on drafting while the disk takes its time
	if broken {
		return
	}
	err := d.files.Commit(tokendb.Document{Conversation: conversation, Time: time.Now().Unix(), Tokens: text[prompt:]})
	if err != nil {
		d.logger.Warn("token database: an answer was not remembered", "detail", err)
	}
}

func (d *Database) append(tokens []int32) {
	if len(tokens) >= d.maxTokens {
		return // longer than all it may hold
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

// refresh looks for what another process has remembered.
func (d *Database) refresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files != nil && !d.broken {
		d.check(d.files.Refresh())
	}
}

// check tells once that the files cannot be used any more.
func (d *Database) check(err error) {
	if err != nil {
		d.broken = true
		d.logger.Warn("token database: it cannot be read any more: drafts go on without it", "detail", err)
	}
}

// read calls f, within which the database is a source. It reports whether f's
// work is to be used; else it is to be done again, without the database.
func (d *Database) read(f func() error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files == nil || d.broken {
		return f() == nil
	}
	d.check(d.files.Read(f))
	return !d.broken
}

// source is what read makes usable, nil for nothing.
func (d *Database) source() spec.Source {
	switch {
	case d.broken:
		return nil
	case d.files != nil:
		return d.files
	}
	return d.index
}

// Len is the number of tokens that it holds, with a separator for each text.
func (d *Database) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files != nil {
		s := d.files.Stats()
		return s.Tokens + s.Documents
	}
	return d.index.Len()
}
