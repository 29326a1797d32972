package main

import (
	"bufio"
	"bytes"
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

	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/spec/tokendb"
)

// importFlags are the command's settings as typed.
type importFlags struct {
	model, tokenizer, output string
	json                     bool
}

func newDatabaseImport() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import FILE… --model M.gguf -o DB",
		Short: "Add texts to a token database, which is made where it is missing",
		Long: "Adds files of text, or .jsonl files whose lines have output_ids, output, text or messages. A file is\n" +
			"added whole or not at all, and is one conversation to sdnpu db forget.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("import: files wanted: see sdnpu db import --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "", "GGUF of the model whose vocabulary the texts get")
	flags.StringVar(&f.tokenizer, "tokenizer", "", "the same; the file needs no weights")
	flags.StringVarP(&f.output, "output", "o", "", "folder of the database (required)")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.MarkFlagsOneRequired("model", "tokenizer")
	cmd.MarkFlagsMutuallyExclusive("model", "tokenizer")
	if err := cmd.MarkFlagRequired("output"); err != nil {
		panic(err) // the flag stands above
	}
	return cmd
}

// imported is what --json prints.
type imported struct {
	Files     int     `json:"files"`
	Texts     int     `json:"texts"`
	Tokens    int     `json:"tokens"`
	ElapsedMS float64 `json:"elapsed_ms"`
	Bytes     int64   `json:"bytes"`
}

func (f *importFlags) run(cmd *cobra.Command, files []string) (err error) {
	tok, err := readTokenizer(f.model + f.tokenizer)
	if err != nil {
		return err
	}
	db, err := tokendb.Open(f.output, tokendb.Options{Fingerprint: tok.Fingerprint(), Vocab: tok.VocabSize(), Logger: newLogger(cmd.ErrOrStderr(), false)})
	if err != nil {
		return withRemedy(err, f.output)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	begin, sum := time.Now(), imported{}
	for _, name := range files {
		documents, err := readTexts(cmd, name, tok)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: indexing %d texts\n", name, len(documents))
		if err := db.Import(documents); err != nil {
			return withRemedy(err, f.output)
		}
		sum.Files, sum.Texts = sum.Files+1, sum.Texts+len(documents)
		for _, document := range documents {
			sum.Tokens += len(document.Tokens)
		}
	}
	sum.ElapsedMS, sum.Bytes = float64(time.Since(begin).Microseconds())/1000, db.Stats().Bytes
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(sum)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d texts, %d tokens of %d files in %.1f s; the database has %s\n", sum.Texts, sum.Tokens, sum.Files, sum.ElapsedMS/1000, bytesText(sum.Bytes))
	return nil
}

// readTexts reads and encodes a file, with a bar on a terminal.
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
	var source io.Reader = file
	if b := newBar(cmd.ErrOrStderr()); b.terminal {
		p := progressbar.NewOptions64(info.Size(), progressbar.OptionSetWriter(cmd.ErrOrStderr()), progressbar.OptionClearOnFinish(),
			progressbar.OptionShowBytes(true), progressbar.OptionSetPredictTime(true), progressbar.OptionSetDescription(filepath.Base(name)))
		defer p.Close()
		source = io.TeeReader(file, p)
	}
	h := fnv.New64a()
	fmt.Fprint(h, name, info.ModTime().UnixNano())
	r := textReader{tok: tok, conversation: h.Sum64(), now: time.Now().Unix(), more: cmd.Context().Err}
	if strings.HasSuffix(name, ".jsonl") {
		err = r.readLines(source)
	} else {
		err = r.readText(source)
	}
	if err == nil && len(r.documents) == 0 {
		err = errors.New("no text in it")
	}
	return r.documents, err
}

// textReader makes documents of a file.
type textReader struct {
	tok          *tokenizer.Tokenizer
	conversation uint64
	now          int64
	more         func() error // an error ends the work
	documents    []tokendb.Document
}

const (
	// maxTextLine is the longest line of a .jsonl file.
	maxTextLine = 64 << 20
	// textPiece is how long a piece of a text is at least: it ends with an empty
	// line, or when it is twice as long.
	textPiece = 64 << 10
)

// add encodes a text; control tokens that it spells out are text.
func (r *textReader) add(text string) error {
	if err := r.more(); err != nil {
		return err
	}
	ids, err := r.tok.Encode(text, tokenizer.EncodeOptions{})
	if err == nil {
		r.keep(ids)
	}
	return err
}

func (r *textReader) keep(ids []int32) {
	if len(ids) > 0 {
		r.documents = append(r.documents, tokendb.Document{Conversation: r.conversation, Time: r.now, Tokens: ids})
	}
}

// readText cuts a text into pieces.
func (r *textReader) readText(source io.Reader) error {
	in := bufio.NewReaderSize(source, 2*textPiece)
	for {
		piece, err := in.Peek(2 * textPiece)
		if len(piece) == 0 {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		n := len(piece)
		if err == nil { // there is more
			if at := bytes.Index(piece[textPiece:], []byte("\n\n")); at >= 0 {
				n = textPiece + at + 2
			} else if at := bytes.LastIndexAny(piece, " \n"); at > 0 {
				n = at
			}
		}
		if err := r.add(string(piece[:n])); err != nil {
			return err
		}
		if _, err := in.Discard(n); err != nil {
			return err
		}
	}
}

// textLine is a line of a .jsonl file; the first field that is there counts.
type textLine struct {
	OutputIDs []int32 `json:"output_ids"`
	Output    string  `json:"output"`
	Text      string  `json:"text"`
	Messages  []struct {
		Content string `json:"content"`
	} `json:"messages"`
}

func (r *textReader) readLines(source io.Reader) error {
	lines := bufio.NewScanner(source)
	lines.Buffer(nil, maxTextLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := r.readLine(lines.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

func (r *textReader) readLine(line []byte) error {
	var l textLine
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	switch {
	case len(l.OutputIDs) > 0:
		r.keep(l.OutputIDs)
	case l.Output != "":
		return r.add(l.Output)
	case l.Text != "":
		return r.add(l.Text)
	case len(l.Messages) > 0:
		for _, m := range l.Messages {
			if err := r.add(m.Content); err != nil {
				return err
			}
		}
	default:
		return errors.New("no output_ids, output, text or messages")
	}
	return nil
}
