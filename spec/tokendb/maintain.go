package tokendb

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	"github.com/sdnpu/sdnpu/backend/mapped"
)

// Seal makes a segment of the log, as happens by itself when it is long.
func (d *DB) Seal() error { return d.Import(nil) }

// Import adds many documents at once: all of them or, when it fails, none.
func (d *DB) Import(documents []Document) error {
	for _, document := range documents {
		if err := d.check(document); err != nil {
			return fmt.Errorf("tokendb: %w", err)
		}
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	if err := d.seal(documents); err != nil {
		return fmt.Errorf("tokendb: %w", err)
	}
	return nil
}

// Forget removes all documents that match from the disk and returns how many
// there were. Their segments are written anew; others stay as they are.
func (d *DB) Forget(match func(Document) bool) (forgotten int, err error) {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.Lock()
	err = d.usable(true)
	parts := d.parts
	d.mu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("tokendb: %w", err)
	}
	refuse := func(document Document) bool {
		if match(document) {
			forgotten++
			return true
		}
		return false
	}
	pieces := make([]piece, 0, len(parts))
	for _, p := range parts {
		documents, err := p.all()
		if err != nil {
			return 0, fmt.Errorf("tokendb: %w", err)
		}
		n := len(documents)
		switch documents = slices.DeleteFunc(documents, refuse); {
		case len(documents) == n:
			pieces = append(pieces, piece{keep: p})
		case len(documents) > 0:
			pieces = append(pieces, piece{documents: documents})
		}
	}
	if err := d.change(pieces, 0, func(document Document) bool { return !refuse(document) }); err != nil {
		return 0, fmt.Errorf("tokendb: %w", err)
	}
	return forgotten, nil
}

// Documents calls visit for every document, the oldest first.
func (d *DB) Documents(visit func(Document)) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.Lock()
	err := d.usable(false)
	parts, tail := d.parts, d.tail
	d.mu.Unlock()
	if err != nil {
		return fmt.Errorf("tokendb: %w", err)
	}
	for _, p := range parts {
		documents, err := p.all()
		if err != nil {
			return fmt.Errorf("tokendb: %w", err)
		}
		for _, document := range documents {
			visit(document)
		}
	}
	for _, document := range tail {
		visit(document)
	}
	return nil
}

// Stats is what a database holds.
type Stats struct {
	Documents, Tokens, Segments int
	// LogTokens of the tokens are in no segment yet.
	LogTokens int
	// Evicted of the documents went since the database was opened, the oldest
	// ones, because it would have been larger than [Options].MaxBytes.
	Evicted int
	// Bytes is the size on disk.
	Bytes int64
}

// Stats counts what the database holds.
func (d *DB) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{Documents: len(d.tail), Segments: len(d.parts), Evicted: d.evicted, Bytes: d.logSize}
	for _, document := range d.tail {
		s.LogTokens += len(document.Tokens)
	}
	s.Tokens = s.LogTokens
	for _, p := range d.parts {
		s.Documents += int(p.header.documents)
		s.Tokens += int(p.tokens - p.header.documents)
		s.Bytes += p.sizeBytes()
	}
	return s
}

// Verify makes every segment anew from its documents and compares, and reads
// the log to its end. Sums that are wrong are found by [Open].
func (d *DB) Verify() error {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.Lock()
	parts, good, name, err := d.parts, d.logSize, logName(d.manifest.log), d.usable(false)
	d.mu.Unlock()
	if err != nil {
		return fmt.Errorf("tokendb: %w", err)
	}
	for _, p := range parts {
		if err := p.verify(); err != nil {
			return fmt.Errorf("tokendb: %s: %w", segmentName(p.id), err)
		}
	}
	info, err := os.Stat(d.disk.path(name))
	if err != nil {
		return fmt.Errorf("tokendb: %w", err)
	}
	if info.Size() > good {
		return fmt.Errorf("tokendb: %s: %w: %d bytes behind the last whole record: the next writer cuts them off", name, ErrDamaged, info.Size()-good)
	}
	return nil
}

// verify compares the segment with one made of its documents.
func (p *part) verify() error {
	documents, err := p.all()
	if err != nil {
		return err
	}
	again := build(documents, int(p.vocab))
	return mapped.Guard(func() error {
		for i, b := range again.sections {
			if s := p.sections[i]; !bytes.Equal(b, p.file.Bytes()[s.offset:s.offset+s.size]) {
				return fmt.Errorf("%w: section %d is not what its documents give", ErrDamaged, i)
			}
		}
		return nil
	})
}
