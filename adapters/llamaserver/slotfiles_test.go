package llamaserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/llamaserver/arguments"
	"github.com/sdnpu/sdnpu/backend/engine"
)

// fakeStore keeps a text for each slot. The file of a saved slot holds fakeMark and the
// text of the slot.
type fakeStore struct {
	slots   []string
	fail    error
	entered chan struct{} // if entered is set, SaveSequence sends to it twice, so that the test can hold a save
}

const fakeMark = "fake slot: "

func (f *fakeStore) SaveSequence(ctx context.Context, i int, w io.Writer) (engine.Saved, error) {
	if f.entered != nil {
		for range 2 {
			select {
			case f.entered <- struct{}{}:
			case <-ctx.Done():
				return engine.Saved{}, ctx.Err()
			}
		}
	}
	n, err := io.WriteString(w, fakeMark+f.slots[i])
	return engine.Saved{Tokens: len(f.slots[i]), Bytes: int64(n)}, errors.Join(err, f.fail)
}

func (f *fakeStore) RestoreSequence(_ context.Context, i int, r io.ReadSeeker) (engine.Saved, error) {
	b, err := io.ReadAll(r)
	text, ok := strings.CutPrefix(string(b), fakeMark)
	if err != nil || !ok {
		return engine.Saved{}, fmt.Errorf("engine: %w: no mark", engine.ErrSaved)
	}
	f.slots[i] = text
	return engine.Saved{Tokens: len(text), Bytes: int64(len(b))}, nil
}

func (f *fakeStore) EraseSequence(i int) (int, error) {
	if f.fail != nil {
		return 0, f.fail
	}
	n := len(f.slots[i])
	f.slots[i] = ""
	return n, nil
}

// slotServer returns a server that saves slots in a new folder.
func slotServer(t testing.TB, slots ...string) (s *Server, folder string, store *fakeStore) {
	t.Helper()
	folder, store = t.TempDir(), &fakeStore{slots: slots}
	s, err := New(Options{Addr: "127.0.0.1:0", Slots: len(slots), SlotFolder: folder})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	s.SetModel(&fakeModel{sequences: store})
	return s, folder, store
}

// act sends a request for a slot, and returns the status and the answer.
func act(s *Server, path, body string) (int, string) {
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader(body)))
	return answer.Code, answer.Body.String()
}

func TestSlotsAreSavedRestoredAndErased(t *testing.T) {
	s, folder, store := slotServer(t, "one", "second")
	code, answer := act(s, "/slots/1?action=save", `{"filename":"a.bin"}`)
	require.Equal(t, 200, code, answer)
	require.Regexp(t, `^\{"filename":"a.bin","id_slot":1,"n_saved":6,"n_written":17,"timings":\{"save_ms":[0-9.]+\}\}$`, answer)
	info, err := os.Stat(filepath.Join(folder, "a.bin"))
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, os.FileMode(0o600), info.Mode(), "only its owner reads the text of a client")
	}
	code, answer = act(s, "/slots/0?action=restore", `{"filename":"a.bin"}`)
	require.Equal(t, 200, code, answer)
	require.Regexp(t, `^\{"filename":"a.bin","id_slot":0,"n_read":17,"n_restored":6,"timings":\{"restore_ms":[0-9.]+\}\}$`, answer)
	require.Equal(t, "second", store.slots[0])
	code, answer = act(s, "/slots/0?action=erase", "")
	require.Equal(t, 200, code, answer)
	require.JSONEq(t, `{"id_slot":0,"n_erased":6}`, answer)
	require.Empty(t, store.slots[0])
}

func TestSlotRequestsAreRefusedWithTheRemedy(t *testing.T) {
	s, folder, store := slotServer(t, "one", "second")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "damaged"), []byte("x"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "folder"), 0o700))
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte(fakeMark+"secret"), 0o600))
	linked := os.Symlink(outside, filepath.Join(folder, "link")) == nil
	for _, tt := range []struct {
		path, body, reason string
		code               int
	}{
		{"/slots/2?action=save", `{"filename":"a"}`, "invalid slot", 400},
		{"/slots/-1?action=save", `{"filename":"a"}`, "invalid slot", 400},
		{"/slots/x?action=erase", ``, "invalid slot", 400},
		{"/slots/0?action=load", `{"filename":"a"}`, "want save, restore or erase", 400},
		{"/slots/0", `{"filename":"a"}`, "want save, restore or erase", 400},
		{"/slots/0?action=save", `{}`, "not plain", 400},
		{"/slots/0?action=save", `{"filename":7}`, "cannot be a number", 400},
		{"/slots/0?action=save", ``, "not understood", 400},
		{"/slots/0?action=restore", `{"filename":"missing"}`, "save one with this filename first", 400},
		{"/slots/0?action=restore", `{"filename":"damaged"}`, "cannot be restored", 400},
		{"/slots/0?action=restore", `{"filename":"folder"}`, "not a regular file", 400},
		{"/slots/0?action=save", `{"filename":"folder"}`, "not a regular file", 400},
		{"/slots/0?action=restore", `{"filename":"link"}`, "not a regular file", 400},
		{"/slots/0?action=save", `{"filename":"link"}`, "not a regular file", 400},
	} {
		if strings.Contains(tt.body, "link") && !linked {
			continue
		}
		code, answer := act(s, tt.path, tt.body)
		require.Equal(t, tt.code, code, "%s %s: %s", tt.path, tt.body, answer)
		require.Contains(t, answer, tt.reason)
		require.NotContains(t, answer, folder)
	}
	require.Equal(t, []string{"one", "second"}, store.slots)
	b, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, fakeMark+"secret", string(b))

	store.fail = fmt.Errorf("engine: %w", engine.ErrSequenceBusy)
	for _, action := range []string{"save", "erase"} {
		code, answer := act(s, "/slots/1?action="+action, `{"filename":"a"}`)
		require.Equal(t, 503, code)
		require.Contains(t, answer, "slot 1 is busy")
	}
	require.NoFileExists(t, filepath.Join(folder, "a"), "a failed save leaves no file")
	store.fail = nil
	for i := range maxSlotFiles {
		require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprint("file", i)), nil, 0o600))
	}
	code, answer := act(s, "/slots/1?action=save", `{"filename":"another"}`)
	require.Equal(t, 400, code)
	require.Contains(t, answer, "remove some")
	code, _ = act(s, "/slots/1?action=save", `{"filename":"file3"}`)
	require.Equal(t, 200, code, "an existing file is replaced")
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Less(t, len(entries), maxSlotFiles+4, "no temporary file is left")
}

func TestServersWithoutAFolderSaveNoSlots(t *testing.T) {
	s, err := New(Options{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	s.SetModel(&fakeModel{sequences: &fakeStore{slots: []string{"one"}}})
	for _, action := range []string{"save", "restore", "erase", "other"} {
		code, answer := act(s, "/slots/0?action="+action, `{"filename":"a"}`)
		require.Equal(t, 501, code)
		require.Contains(t, answer, "--slot-save-path")
	}
	s.files.folder = t.TempDir()
	s.SetModel(&fakeModel{})
	code, answer := act(s, "/slots/0?action=erase", "")
	require.Equal(t, 501, code)
	require.Contains(t, answer, "embeddings")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for folder, reason := range map[string]string{file: "not a folder", file + "x": "create the folder first"} {
		_, err := New(Options{Addr: "127.0.0.1:0", SlotFolder: folder})
		require.ErrorIs(t, err, arguments.ErrInvalid)
		require.ErrorContains(t, err, reason)
	}
	if runtime.GOOS != "windows" {
		open := t.TempDir()
		require.NoError(t, os.Chmod(open, 0o777)) //nolint:gosec // the test needs a folder that others can change
		_, err := New(Options{Addr: "127.0.0.1:0", SlotFolder: open})
		require.ErrorIs(t, err, arguments.ErrInvalid)
	}
}

func TestOneSlotMovesAtATime(t *testing.T) {
	s, folder, store := slotServer(t, "one")
	store.entered = make(chan struct{})
	done := make(chan int)
	go func() {
		code, _ := act(s, "/slots/0?action=save", `{"filename":"a"}`)
		done <- code
	}()
	<-store.entered
	code, answer := act(s, "/slots/0?action=restore", `{"filename":"a"}`)
	require.Equal(t, 503, code)
	require.Contains(t, answer, "Ask again later")
	require.NoFileExists(t, filepath.Join(folder, "a"), "the file appears when it is complete")
	<-store.entered
	require.Equal(t, 200, <-done)
	require.FileExists(t, filepath.Join(folder, "a"))
}

// FuzzSlotRequestsStayInTheFolder sends any path, action and filename. No request may
// create, change or read a file outside the folder of saved slots.
func FuzzSlotRequestsStayInTheFolder(f *testing.F) {
	for _, name := range []string{"a.bin", "../a", "..", ".", "", "a/b", `a\b`, "/etc/passwd", "C:a", "CON", "nul.txt", "a\x00b", ".hidden", "a.", "ä", strings.Repeat("a", 101)} {
		f.Add("save", "0", name)
		f.Add("restore", "1", name)
	}
	s, folder, store := slotServer(f, "one", "second")
	parent := filepath.Dir(folder)
	outside := filepath.Join(parent, "a")
	require.NoError(f, os.WriteFile(outside, []byte(fakeMark+"secret"), 0o600))
	f.Fuzz(func(t *testing.T, action, id, name string) {
		store.slots = []string{"one", "second"}
		body, err := json.Marshal(map[string]string{"filename": name})
		require.NoError(t, err)
		code, _ := act(s, "/slots/"+url.PathEscape(id)+"?action="+url.QueryEscape(action), string(body))
		if action != "erase" && (strings.ContainsAny(name, `/\:`) || strings.HasPrefix(name, ".")) {
			require.NotEqual(t, 200, code, "a name that may lead to another folder is accepted")
		}
		require.NotContains(t, store.slots, "secret")
		entries, err := os.ReadDir(parent)
		require.NoError(t, err)
		require.Len(t, entries, 2)
		files, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, file := range files {
			require.True(t, plainName.MatchString(file.Name()), file.Name())
			require.NoError(t, os.Remove(filepath.Join(folder, file.Name())))
		}
	})
}
