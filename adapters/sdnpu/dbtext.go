package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/sdnpu/sdnpu/adapters/jsonfault"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/spec/tokendb"
)

// textReader makes documents of a file.
type textReader struct {
	tok       *tokenizer.Tokenizer
	now       int64
	more      func() error // an error ends the work
	documents []tokendb.Document
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
		r.documents = append(r.documents, tokendb.Document{Time: r.now, Tokens: ids})
	}
}

// errNoText is returned for a file of something else.
var errNoText = errors.New("no text: UTF-8 without zero bytes is wanted")

// textIn is a piece of a file as text; at is where in the file it begins.
func textIn(piece []byte, at int) (string, error) {
	for i := 0; i < len(piece); {
		r, size := utf8.DecodeRune(piece[i:])
		if r == 0 || r == utf8.RuneError && size == 1 {
			return "", fmt.Errorf("%w: behind byte %d", errNoText, at+i)
		}
		i += size
	}
	return string(piece), nil
}

// readText cuts a text into pieces.
func (r *textReader) readText(source io.Reader) error {
	in := bufio.NewReaderSize(source, 2*textPiece)
	for at := 0; ; {
		piece, err := in.Peek(2 * textPiece)
		if len(piece) == 0 {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		n := len(piece)
		if err == nil { // there is more
			n = cut(piece)
		}
		text, err := textIn(piece[:n], at)
		if err != nil {
			return err
		}
		if err := r.add(text); err != nil {
			return err
		}
		if _, err := in.Discard(n); err != nil {
			return err
		}
		at += n
	}
}

// cut is where a full piece ends: behind an empty line, else before the last
// word, else between two characters.
func cut(piece []byte) int {
	if at := bytes.Index(piece[textPiece:], []byte("\n\n")); at >= 0 {
		return textPiece + at + 2
	}
	if at := bytes.LastIndexAny(piece, " \n"); at > 0 {
		return at
	}
	n := len(piece)
	for tail := 1; tail < utf8.UTFMax; tail++ {
		if utf8.RuneStart(piece[n-tail]) {
			if !utf8.FullRune(piece[n-tail:]) {
				n -= tail
			}
			break
		}
	}
	return n
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
	if err := jsonfault.Unmarshal(line, &l); err != nil {
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
