package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/spec/tokendb"
)

// importFlags are the command's settings as typed.
type importFlags struct {
	model, tokenizer, database, size string
	files                            []string
	json                             bool
}

func newDatabaseImport() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import DB FILE… --model M.gguf",
		Short: "Add texts to a token database, which is made where it is missing",
		Long: "Adds files of text, or .jsonl files whose lines have output_ids, output, text or messages. A file is\n" +
			"added whole or not at all, and is one conversation to sdnpu db forget; one that holds what another\n" +
			"held is not added again. Text is UTF-8. With -o DB, as it was called before, all arguments are files.",
		Example: "  sdnpu db import ~/answers chats.jsonl notes.txt --model model.gguf",
		Args:    func(_ *cobra.Command, args []string) error { return f.take(args) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "", "GGUF of the model whose vocabulary the texts get")
	flags.StringVar(&f.tokenizer, "tokenizer", "", "the same as --model, from a GGUF that need not hold weights")
	flags.StringVarP(&f.database, "output", "o", "", "folder of the database where it is not the first argument")
	flags.StringVar(&f.size, "size", "unlimited", "what the database keeps: 1MiB or more, as 256MiB, 1GiB; the oldest texts go first. sdnpu.db_size says it where the database is used")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.MarkFlagsOneRequired("model", "tokenizer")
	cmd.MarkFlagsMutuallyExclusive("model", "tokenizer")
	return cmd
}

// take tells the database from the files, as the arguments are given.
func (f *importFlags) take(args []string) error {
	if f.files = args; f.database == "" && len(args) > 0 {
		f.database, f.files = args[0], args[1:]
	}
	info, err := os.Stat(f.database)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("import: %s is a file: the folder of the database comes first, then files: see sdnpu db import --help", f.database)
	case len(f.files) == 0:
		return errors.New("import: the folder of a database and files wanted: see sdnpu db import --help")
	}
	return nil
}

// imported is what --json prints.
type imported struct {
	Files  int `json:"files"`
	Known  int `json:"known_files"` // that the database had already
	Texts  int `json:"texts"`
	Tokens int `json:"tokens"`
	// Dropped texts, the oldest of the database, had no room in --size.
	Dropped   int     `json:"dropped_texts"`
	ElapsedMS float64 `json:"elapsed_ms"`
	Bytes     int64   `json:"bytes"`
}

func (f *importFlags) run(cmd *cobra.Command) (err error) {
	tok, err := readTokenizer(f.model + f.tokenizer)
	if err != nil {
		return err
	}
	size, err := config.ParseDatabaseSize(f.size)
	if err != nil {
		return fmt.Errorf("--size: %w", err)
	}
	i := &importing{path: f.database, options: tokendb.Options{
		Fingerprint: tok.Fingerprint(), Vocab: tok.VocabSize(), MaxBytes: databaseLimit(size), Logger: newLogger(cmd.ErrOrStderr(), false),
	}}
	defer func() { err = errors.Join(err, i.close()) }()
	if _, err := tokendb.Owner(f.database); !errors.Is(err, os.ErrNotExist) { // its troubles come before the work
		if err := i.open(); err != nil {
			return err
		}
	}
	begin := time.Now()
	for _, name := range f.files {
		documents, err := readTexts(cmd, name, tok)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := i.add(cmd.ErrOrStderr(), name, documents); err != nil {
			return err
		}
	}
	stats, sum := i.db.Stats(), i.sum
	sum.ElapsedMS, sum.Bytes, sum.Dropped = float64(time.Since(begin).Microseconds())/1000, stats.Bytes, stats.Evicted
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(sum)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d texts, %d tokens of %d files in %.1f s; the database has %s\n", sum.Texts, sum.Tokens, sum.Files, sum.ElapsedMS/1000, bytesText(sum.Bytes))
	if sum.Dropped > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "%d texts, the oldest, were dropped to keep --size %s; %d are left\n", sum.Dropped, f.size, stats.Documents)
	}
	return nil
}

// importing fills a database. One that is not there yet is made when there is
// something to put into it.
type importing struct {
	path    string
	options tokendb.Options
	db      *tokendb.DB // nil until it is opened
	known   map[uint64]bool
	sum     imported
}

func (i *importing) open() (err error) {
	if i.db, err = tokendb.Open(i.path, i.options); err != nil {
		return withRemedy(err, i.path)
	}
	i.known = map[uint64]bool{}
	return withRemedy(i.db.Documents(func(document tokendb.Document) { i.known[document.Conversation] = true }), i.path)
}

// add puts a file's documents in, of which there are some.
func (i *importing) add(progress io.Writer, name string, documents []tokendb.Document) error {
	if i.db == nil {
		if err := i.open(); err != nil {
			return err
		}
	}
	if i.known[documents[0].Conversation] {
		i.sum.Known++
		fmt.Fprintf(progress, "%s: the database has these texts already, as conversation %s: nothing is added\n", name, conversationID(documents[0]))
		return nil
	}
	i.known[documents[0].Conversation] = true
	fmt.Fprintf(progress, "%s: indexing %d texts\n", name, len(documents))
	if err := i.db.Import(documents); err != nil {
		return withRemedy(err, i.path)
	}
	i.sum.Files, i.sum.Texts = i.sum.Files+1, i.sum.Texts+len(documents)
	for _, document := range documents {
		i.sum.Tokens += len(document.Tokens)
	}
	return nil
}

func (i *importing) close() error {
	if i.db == nil {
		return nil
	}
	return i.db.Close()
}

// readTexts reads and encodes a file, the texts of which are one conversation. It
// is named after what the file holds, so that the same texts are known again.
func readTexts(cmd *cobra.Command, name string, tok *tokenizer.Tokenizer) ([]tokendb.Document, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	content := fnv.New64a()
	progress := readProgress(cmd.ErrOrStderr(), filepath.Base(name), info.Size())
	defer progress.Close()
	source := io.TeeReader(file, io.MultiWriter(content, progress))
	r := textReader{tok: tok, now: time.Now().Unix(), more: cmd.Context().Err}
	if strings.HasSuffix(name, ".jsonl") {
		err = r.readLines(source)
	} else {
		err = r.readText(source)
	}
	if err == nil && len(r.documents) == 0 {
		err = errors.New("no text in it")
	}
	for i := range r.documents {
		r.documents[i].Conversation = content.Sum64()
	}
	return r.documents, err
}

// readProgress is told what is read of a file: a bar on a terminal, else a line
// every lineEvery.
func readProgress(w io.Writer, what string, total int64) io.WriteCloser {
	if newBar(w).terminal {
		return progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionClearOnFinish(),
			progressbar.OptionShowBytes(true), progressbar.OptionSetPredictTime(true), progressbar.OptionSetDescription(what))
	}
	return &readLog{w: w, what: what, total: total, last: time.Now()}
}

// readLog writes a line every lineEvery.
type readLog struct {
	w           io.Writer
	what        string
	done, total int64
	last        time.Time
}

func (l *readLog) Write(p []byte) (int, error) {
	l.done += int64(len(p))
	if time.Since(l.last) >= lineEvery {
		l.last = time.Now()
		fmt.Fprintf(l.w, "%s: %s of %s read\n", l.what, bytesText(l.done), bytesText(max(l.done, l.total)))
	}
	return len(p), nil
}

func (l *readLog) Close() error { return nil }
