package enable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/atomicfile"
	"github.com/sdnpu/sdnpu/internal/filelock"
)

// journal notes the variant and the blob that an [Ollama.Enable] may leave in Ollama's
// store, so that the next call of Enable can remove the variant and the blob. Each Ollama
// has one journal. Only the process that holds a journal's lock changes the journal.
type journal struct {
	path string
	lock *os.File
}

// entry is a journal's note of an unfinished variant and the blob of its adapter.
type entry struct {
	URL        string `json:"url"`
	Unfinished string `json:"unfinished"`
	Base       string `json:"base"`
	Digest     string `json:"digest"`
}

// openJournal locks the journal of an Ollama in a folder.
func openJournal(folder, url string) (*journal, error) {
	sum := sha256.Sum256([]byte(url))
	path := filepath.Join(folder, hex.EncodeToString(sum[:8]))
	for {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
		lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, os.ErrNotExist) { // another process has just removed the journal's folder
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := filelock.Try(lock, true); errors.Is(err, filelock.ErrHeld) {
			return nil, errors.Join(fmt.Errorf("%w (%s): wait until that process has ended", ErrBusy, url), lock.Close())
		}
		if j := (&journal{path: path + ".json", lock: lock}); j.isCurrent() {
			_ = os.Remove(j.adapterPath()) // if the last holder of the lock was killed, its temporary adapter file may be left
			j.removeTemporary()
			return j, nil // on a file system without locks, nothing protects the journal
		}
		if err := lock.Close(); err != nil {
			return nil, err
		}
	}
}

// removeTemporary removes the temporary files of package atomicfile that a process
// left because it was killed while it wrote the journal.
func (j *journal) removeTemporary() {
	names, _ := filepath.Glob(filepath.Join(filepath.Dir(j.path), "."+filepath.Base(j.path)+"-*")) // Glob cannot fail, because the pattern is valid
	for _, name := range names {
		_ = os.Remove(name) // ignore the error, because the next process that locks the journal tries again
	}
}

// isCurrent reports whether the locked file of the journal still has its name. The
// process that held the lock before may have removed the lock file after this process
// opened it.
func (j *journal) isCurrent() bool {
	locked, err := j.lock.Stat()
	named, missing := os.Stat(j.lock.Name())
	return err == nil && missing == nil && os.SameFile(locked, named)
}

// adapterPath returns the path at which the adapter is stored while the model is
// prepared.
func (j *journal) adapterPath() string { return strings.TrimSuffix(j.path, ".json") + ".gguf" }

// withAdapter stores an adapter in a file, calls the function `use` with the file's
// path, and removes the file. If the process is killed before `use` returns, the next
// process that locks the journal removes the adapter's file.
func (j *journal) withAdapter(content []byte, use func(path string) error) error {
	if err := os.WriteFile(j.adapterPath(), content, 0o600); err != nil {
		return err
	}
	return errors.Join(use(j.adapterPath()), os.Remove(j.adapterPath()))
}

// read returns the journal's entry of an interrupted call, or nil. read removes a
// damaged entry, because a damaged entry cannot be undone.
func (j *journal) read() (*entry, error) {
	text, err := os.ReadFile(j.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var e entry
	if json.Unmarshal(text, &e) != nil || e.Unfinished == "" {
		return nil, j.clear()
	}
	return &e, nil
}

func (j *journal) write(ctx context.Context, e entry) error {
	return atomicfile.WriteJSON(ctx, j.path, e)
}

func (j *journal) clear() error {
	if err := os.Remove(j.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// close removes the journal's lock file while the file is locked, and then releases
// the lock. close also removes the journal's folder if the folder is empty.
func (j *journal) close() error {
	_ = os.Remove(j.lock.Name())               // on Windows the open lock file stays, and a later call of openJournal uses it
	_ = os.Remove(filepath.Dir(j.lock.Name())) // a folder that holds other files is not removed
	return j.lock.Close()
}
