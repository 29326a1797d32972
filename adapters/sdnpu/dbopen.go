package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/spec/replay"
	"github.com/sdnpu/sdnpu/spec/tokendb"
)

// openDatabase opens the token database that the model's config names. None of
// its troubles keeps a model from running: the log tells them, and answers are
// kept in memory as without one.
func (j job) openDatabase(t *tokenizer.Tokenizer) (*tokendb.DB, *draft.Database) {
	if j.config.Database == "" {
		return nil, nil
	}
	path, err := expandHome(j.config.Database)
	if err != nil {
		j.logger.Warn("no token database on disk", "detail", err, "remedy", "give sdnpu.db an absolute path")
		return nil, nil
	}
	if !j.config.Draft.Database {
		j.logger.Warn("the token database is not used", "path", path, "remedy", "set sdnpu.draft to default, or to terms with db")
		return nil, nil
	}
	options := tokendb.Options{Fingerprint: t.Fingerprint(), Vocab: t.VocabSize(), MaxBytes: databaseLimit(j.config.DatabaseSize), Logger: j.logger}
	db, err := tokendb.Open(path, options)
	if errors.Is(err, tokendb.ErrBusy) {
		j.logger.Info("another process writes to the token database: its answers are drafted from, this process's are not kept", "path", path)
		options.ReadOnly = true
		db, err = tokendb.Open(path, options)
	}
	if err != nil {
		j.logger.Warn("no token database on disk: drafts go on without it", "detail", err, "remedy", databaseRemedy(err, path))
		return nil, nil
	}
	s := db.Stats()
	j.logger.Info("token database", "path", path, "texts", s.Documents, "tokens", s.Tokens, "bytes", s.Bytes)
	return db, draft.OnDisk(db, j.logger)
}

// databaseLimit is a size as the database takes it, where zero is no limit.
func databaseLimit(size int64) int64 {
	if size == 0 {
		return math.MaxInt64
	}
	return size
}

// databaseRemedy says what to do about a database that does not open.
func databaseRemedy(err error, path string) string {
	switch {
	case errors.Is(err, tokendb.ErrFingerprint):
		return "name another folder: models share one only if they share the tokenizer"
	case errors.Is(err, tokendb.ErrForeign):
		return "name a folder of its own, or one that does not exist yet"
	case errors.Is(err, tokendb.ErrDamaged):
		return "sdnpu db purge " + path + " removes it, and a new one begins"
	case errors.Is(err, tokendb.ErrBusy):
		return "stop the model that uses it (ollama stop), then try again"
	}
	return "see that the folder can be written"
}

// expandHome replaces a leading ~/ by the user's home.
func expandHome(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, rest), err
}

// openKnown opens a database for a replay. One that holds an output that is
// scored is refused, and one of another tokenizer can only be guessed at by its
// vocabulary.
func openKnown(path string, traces []replay.Trace) (*tokendb.DB, error) {
	owner, err := tokendb.Owner(path)
	if err != nil {
		return nil, err
	}
	scored := make(map[string]bool, len(traces))
	for _, t := range traces {
		for _, token := range append(t.Prompt[:len(t.Prompt):len(t.Prompt)], t.Output...) {
			if int(token) >= owner.Vocab {
				return nil, fmt.Errorf("%w: the traces have token %d", tokendb.ErrFingerprint, token)
			}
		}
		scored[fmt.Sprint(t.Output)] = true
	}
	db, err := tokendb.Open(path, owner)
	if err != nil {
		return nil, err
	}
	found := false
	err = db.Documents(func(document tokendb.Document) { found = found || scored[fmt.Sprint(document.Tokens)] })
	if err == nil && found {
		err = errScored
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
