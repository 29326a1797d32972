package tokendb

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// A change makes segments and a log beside those in use and then names them in
// a new manifest: until that is renamed the database is the old one, from then
// on the new one. One change goes on at a time; commits meanwhile go on, too.

// maxSegmentTokens bounds a segment: its places have three bytes.
const maxSegmentTokens = 12 << 20

// piece is what a segment of the changed database is made of: an old one that
// stays, or documents.
type piece struct {
	keep      *part
	documents []Document
}

// absorb is how much larger than what comes in a segment may be that is merged
// with it: few segments make queries fast, seldom merging makes commits cheap.
const absorb = 4

// seal makes a segment of the log and of more documents, merged with the
// segments that are not much larger, and each text once. changing is held.
func (d *DB) seal(more []Document) error {
	d.mu.Lock()
	tail, parts, err := d.tail, d.parts, d.usable(true)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	incoming := slices.Concat(tail, more)
	if len(incoming) == 0 {
		return nil
	}
	n, size := len(parts), sizeOf(incoming)
	for n > 0 && int(parts[n-1].tokens) <= absorb*size && size+int(parts[n-1].tokens) <= maxSegmentTokens || n > maxSegments-4 {
		n--
		size += int(parts[n].tokens)
	}
	pieces := make([]piece, 0, n+1)
	for _, p := range parts[:n] {
		pieces = append(pieces, piece{keep: p})
	}
	var merged []Document
	for _, p := range parts[n:] {
		documents, err := p.all()
		if err != nil {
			return err
		}
		merged = append(merged, documents...)
	}
	pieces = append(pieces, split(unrepeated(append(merged, incoming...)))...)
	before := documentsIn(pieces)
	if pieces, err = d.evict(pieces); err != nil {
		return err
	}
	if err := d.change(pieces, len(tail), func(Document) bool { return true }); err != nil {
		return err
	}
	d.mu.Lock()
	d.evicted += before - documentsIn(pieces)
	d.mu.Unlock()
	return nil
}

// sizeOf is how many tokens and separators documents are.
func sizeOf(documents []Document) (tokens int) {
	for _, document := range documents {
		tokens += 1 + len(document.Tokens)
	}
	return tokens
}

// split cuts documents into pieces that fit a segment each.
func split(documents []Document) (pieces []piece) {
	for len(documents) > 0 {
		n, size := 0, 0
		for n < len(documents) && (n == 0 || size+1+len(documents[n].Tokens) <= maxSegmentTokens) {
			size += 1 + len(documents[n].Tokens)
			n++
		}
		pieces = append(pieces, piece{documents: documents[:n:n]})
		documents = documents[n:]
	}
	return pieces
}

// bytesPerToken is what a token of a new segment is reckoned with.
const bytesPerToken = 8

func (p piece) sizeBytes() int64 {
	if p.keep != nil {
		return p.keep.sizeBytes()
	}
	return int64(sizeOf(p.documents) * bytesPerToken)
}

// documentsIn is how many documents pieces hold.
func documentsIn(pieces []piece) (n int) {
	for _, p := range pieces {
		if n += len(p.documents); p.keep != nil {
			n += int(p.keep.header.documents)
		}
	}
	return n
}

// evict drops the oldest documents of a database that would be too large, an
// eighth more than has to go, so that it is not done each time.
func (d *DB) evict(pieces []piece) ([]piece, error) {
	total := int64(0)
	for _, p := range pieces {
		total += p.sizeBytes()
	}
	if total <= d.options.MaxBytes {
		return pieces, nil
	}
	excess := total - d.options.MaxBytes*7/8
	for len(pieces) > 0 && excess >= pieces[0].sizeBytes() {
		excess -= pieces[0].sizeBytes()
		pieces = pieces[1:]
	}
	if len(pieces) == 0 || excess <= 0 {
		return pieces, nil
	}
	first := pieces[0]
	if first.keep != nil {
		documents, err := first.keep.all()
		if err != nil {
			return nil, err
		}
		first = piece{documents: documents}
	}
	for excess > 0 && len(first.documents) > 0 {
		excess -= int64(1+len(first.documents[0].Tokens)) * bytesPerToken
		first.documents = first.documents[1:]
	}
	if len(first.documents) == 0 {
		return pieces[1:], nil
	}
	return append([]piece{first}, pieces[1:]...), nil
}

// change exchanges all files: the segments for pieces, the log for one without
// its first sealed documents and those that keep refuses. changing is held.
func (d *DB) change(pieces []piece, sealed int, keep func(Document) bool) (err error) {
	m, parts := d.manifest, []*part(nil)
	m.segments = nil
	defer func() {
		if err != nil {
			err = errors.Join(err, d.abandon(parts, m.log))
		}
	}()
	for _, p := range pieces {
		if p.keep == nil {
			if p.keep, err = d.writeSegment(p.documents, m.next); err != nil {
				return errors.Join(err, d.disk.remove(segmentName(m.next)))
			}
			m.next++
		}
		parts, m.segments = append(parts, p.keep), append(m.segments, p.keep.id)
	}
	if len(parts) > maxSegments {
		return fmt.Errorf("%d segments: %d at most", len(parts), maxSegments)
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	if err := d.writable(); err != nil {
		return err
	}
	var tail []Document
	for _, document := range d.tail[sealed:] {
		if keep(document) {
			tail = append(tail, document)
		}
	}
	m.log, m.next = m.next, m.next+1
	return d.exchange(m, parts, tail)
}

// exchange writes the log and the manifest and goes over to them. writing is
// held.
func (d *DB) exchange(m manifest, parts []*part, tail []Document) error {
	if err := d.writeLog(m.log, tail); err != nil {
		return err
	}
	log, err := d.disk.open(logName(m.log), os.O_APPEND)
	if err != nil {
		return err
	}
	if err := d.disk.sync(); err != nil { // the new files' names come before the manifest's
		return errors.Join(err, log.Close())
	}
	if err := d.disk.replace(manifestName, m.encode()); err != nil {
		// Which of the two manifests is on disk nobody knows.
		return errors.Join(d.fail(fmt.Errorf("replace the %s: %w", manifestName, err)), log.Close())
	}
	old := d.log
	d.log = log
	info, err := log.Stat()
	if err != nil {
		return d.fail(err)
	}
	d.mu.Lock()
	d.logSize = info.Size()
	d.adopt(m, parts, tail)
	d.mu.Unlock()
	if err := old.Close(); err != nil {
		d.options.Logger.Warn("token database: the old log was not closed", "detail", err)
	}
	d.tidy()
	return nil
}

// abandon removes what a change has made that did not come about.
func (d *DB) abandon(parts []*part, log uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return nil // the manifest on disk may name them
	}
	var errs []error
	for _, p := range parts {
		if !slices.Contains(d.parts, p) {
			errs = append(errs, p.release(nil), d.disk.remove(segmentName(p.id)))
		}
	}
	if log != d.manifest.log {
		errs = append(errs, d.disk.remove(logName(log)))
	}
	return errors.Join(errs...)
}

// writeSegment makes a segment and maps it.
func (d *DB) writeSegment(documents []Document, id uint64) (*part, error) {
	image := build(documents, d.options.Vocab)
	err := d.disk.create(segmentName(id), func(w io.Writer) error {
		_, err := image.writeTo(w, d.options.Fingerprint)
		return err
	})
	if err != nil {
		return nil, err
	}
	return d.openPart(id)
}
