package tokendb

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/sdnpu/sdnpu/spec"
)

const (
	// defaultMaxBytes is the size of a database whose owner names none.
	defaultMaxBytes = 256 << 20
	// sealTokens is when the log becomes a segment: reading a log of that size
	// takes a moment when a database is opened.
	sealTokens = 1 << 15
)

// Options says whose database it is.
type Options struct {
	// Fingerprint names the tokenizer that the tokens are of, Vocab is how many
	// it has.
	Fingerprint [32]byte
	Vocab       int
	// MaxBytes is the size on disk above which the oldest documents go. Zero means
	// 256 MiB.
	MaxBytes int64
	// ReadOnly reads beside another process that writes.
	ReadOnly bool
	// Logger receives what goes wrong behind a commit. Nil means silence.
	Logger *slog.Logger
}

// DB is an open database. Its methods may be called from any goroutine, except
// that [DB.Levels] and [DB.Successor] belong within [DB.Read].
type DB struct {
	disk    disk
	options Options
	lock    *os.File // nil for readers
	seals   sync.WaitGroup

	// Locks are taken in this order. changing is held by who exchanges files;
	// writing by who writes the log, and what it guards changes under mu too, so
	// that queries wait for no disk; mu by who looks into the database.
	changing sync.Mutex
	writing  sync.Mutex
	mu       sync.Mutex
	closed   bool
	failed   error // why nothing can be written any more
	gone     error // why nothing can be read any more
	manifest manifest
	listed   os.FileInfo // of the manifest that was read
	parts    []*part
	tail     []Document // of the log
	index    *spec.Index
	log      *file // nil for readers
	logSize  int64
	evicted  int // see Stats
	query    query
}

// Open opens the database in a folder, which a writer makes where it is missing.
func Open(dir string, o Options) (_ *DB, err error) {
	if o.Vocab < 1 || o.Vocab > maxVocab {
		return nil, fmt.Errorf("tokendb: a vocabulary of %d: 1 to %d tokens wanted", o.Vocab, maxVocab)
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return open(&DB{disk: disk{dir: dir}, options: o})
}

func open(d *DB) (_ *DB, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("tokendb: %s: %w", d.disk.dir, err), d.Close())
		}
	}()
	if !d.options.ReadOnly {
		if err := d.own(); err != nil {
			return nil, err
		}
	}
	if err := d.load(); err != nil {
		return nil, err
	}
	if !d.options.ReadOnly {
		if err := d.takeLog(); err != nil {
			return nil, err
		}
		d.tidy()
	}
	return d, nil
}

// load reads the manifest and what it names. A writer may replace files between
// the two; then there is a new manifest.
func (d *DB) load() error {
	for range 20 {
		err := d.loadOnce()
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, gone := os.Stat(d.disk.path(manifestName)); gone != nil {
			return err
		}
	}
	return fmt.Errorf("%w: a file that the %s names is missing", ErrDamaged, manifestName)
}

func (d *DB) loadOnce() (err error) {
	info, err := os.Stat(d.disk.path(manifestName))
	if err != nil {
		return err
	}
	m, err := d.readManifest()
	if err != nil {
		return err
	}
	var parts []*part
	defer func() {
		if err != nil {
			for _, p := range parts {
				err = errors.Join(err, p.release(d.parts))
			}
		}
	}()
	for _, id := range m.segments {
		p, err := d.openPart(id)
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	tail, size, err := d.readLog(m.log)
	if err != nil {
		return err
	}
	d.adopt(m, parts, tail)
	d.logSize, d.listed = size, info
	return nil
}

// readManifest reads and checks the manifest.
func (d *DB) readManifest() (manifest, error) {
	b, err := os.ReadFile(d.disk.path(manifestName))
	if err != nil {
		return manifest{}, err
	}
	m, err := parseManifest(b)
	if err == nil && (m.fingerprint != d.options.Fingerprint || int(m.vocab) != d.options.Vocab) {
		err = ErrFingerprint
	}
	return m, err
}

// readLog reads the documents of a log and how many of its bytes are good.
func (d *DB) readLog(id uint64) ([]Document, int64, error) {
	b, err := os.ReadFile(d.disk.path(logName(id)))
	if err != nil {
		return nil, 0, err
	}
	vocab, fingerprint, err := parseLogHeader(b)
	if err != nil {
		return nil, 0, err
	}
	if fingerprint != d.options.Fingerprint || int(vocab) != d.options.Vocab {
		return nil, 0, ErrFingerprint
	}
	documents, n := parseRecords(b[logHeaderSize:], vocab)
	return documents, int64(logHeaderSize + n), nil
}

// adopt makes files the database that queries see, and lets go of others.
func (d *DB) adopt(m manifest, parts []*part, tail []Document) {
	old := d.parts
	d.manifest, d.parts, d.tail = m, parts, tail
	d.index = spec.NewIndex(depth)
	for _, document := range tail {
		d.remember(document)
	}
	d.query.forget()
	for _, p := range old {
		if err := p.release(parts); err != nil {
			d.options.Logger.Warn("token database: a segment was not unmapped", "detail", err)
		}
	}
}

// remember adds a document to the index of the log.
func (d *DB) remember(document Document) {
	d.index.Append(spec.Separator)
	for _, token := range document.Tokens {
		d.index.Append(token)
	}
	d.query.forget()
}

// usable says why the database is not, if so.
func (d *DB) usable(write bool) error {
	switch {
	case d.closed:
		return ErrClosed
	case d.gone != nil:
		return d.gone
	case write && d.options.ReadOnly:
		return ErrReadOnly
	case write:
		return d.failed
	}
	return nil
}

// writable says why nothing can be written, if so.
func (d *DB) writable() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.usable(true)
}

// fail makes err the reason why nothing is written from now on.
func (d *DB) fail(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = err
	return err
}

// Commit keeps a document: it is on disk when Commit returns.
func (d *DB) Commit(document Document) error {
	if err := d.check(document); err != nil {
		return fmt.Errorf("tokendb: %w", err)
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	if err := d.writable(); err != nil {
		return fmt.Errorf("tokendb: %w", err)
	}
	record := appendRecord(nil, document, d.manifest.vocab)
	if _, err := d.log.Write(record); err != nil {
		return d.takeBack(err)
	}
	if err := d.log.Sync(); err != nil {
		// Whether it is on disk nobody knows: after this a log is not gone on with.
		return fmt.Errorf("tokendb: %w", d.fail(fmt.Errorf("flush the log: %w", err)))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logSize += int64(len(record))
	document.Tokens = slices.Clone(document.Tokens)
	d.tail = append(d.tail, document)
	d.remember(document)
	if d.index.Len() >= sealTokens && d.changing.TryLock() {
		d.seals.Go(func() {
			defer d.changing.Unlock()
			if err := d.seal(nil); err != nil && !errors.Is(err, ErrClosed) {
				d.options.Logger.Warn("token database: the log was not sealed: it stays and is tried again", "detail", err)
			}
		})
	}
	return nil
}

// takeBack removes half a record from the log.
func (d *DB) takeBack(err error) error {
	if cut := d.log.Truncate(d.logSize); cut != nil {
		return fmt.Errorf("tokendb: %w", d.fail(errors.Join(err, cut)))
	}
	return fmt.Errorf("tokendb: append to the log: %w", err)
}

// check refuses a document that the format cannot hold.
func (d *DB) check(document Document) error {
	if len(document.Tokens) > maxDocument {
		return fmt.Errorf("%w: %d tokens, %d at most", ErrDocument, len(document.Tokens), maxDocument)
	}
	for _, token := range document.Tokens {
		if token < 0 || int(token) >= d.options.Vocab {
			return fmt.Errorf("%w: token %d of %d", ErrDocument, token, d.options.Vocab)
		}
	}
	return nil
}

// maxDocument is the longest document: a segment has room for several.
const maxDocument = 1 << 22

// Close waits for what goes on and gives everything back. It may be called
// twice.
func (d *DB) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.seals.Wait()
	d.changing.Lock()
	defer d.changing.Unlock()
	d.writing.Lock()
	defer d.writing.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, p := range d.parts {
		errs = append(errs, p.release(nil))
	}
	if d.log != nil {
		errs = append(errs, d.log.Close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	d.parts, d.log, d.lock = nil, nil, nil
	return errors.Join(errs...)
}
