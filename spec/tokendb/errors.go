package tokendb

import "errors"

var (
	// ErrForeign is returned for a folder or file that is no token database, or
	// one of another format.
	ErrForeign = errors.New("not a token database of this version")
	// ErrFingerprint is returned when a database belongs to another tokenizer:
	// its numbers would mean other words.
	ErrFingerprint = errors.New("the token database belongs to another tokenizer")
	// ErrDamaged is returned for contents that no checksum vouches for.
	ErrDamaged = errors.New("the token database is damaged")
	// ErrBusy is returned to a second writer.
	ErrBusy = errors.New("another process writes to the token database")
	// ErrReadOnly is returned by a reader that is asked to write.
	ErrReadOnly = errors.New("the token database was opened for reading")
	// ErrDocument is returned for a document that cannot be kept: a token that
	// the vocabulary does not have, or too many of them.
	ErrDocument = errors.New("no document of this vocabulary")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the token database is closed")
)
