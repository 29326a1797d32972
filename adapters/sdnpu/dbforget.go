package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
	"github.com/sdnpu/sdnpu/spec/tokendb"
)

// forgetFlags say what is to be forgotten.
type forgetFlags struct {
	containing, model string
	since             span
}

// span is a flag's time, whose errors say how one is written.
type span time.Duration

func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errors.New("a time with its unit wanted, such as 24h or 90m")
	}
	*s = span(d)
	return nil
}

// String is empty for none: the help shows no default then.
func (s *span) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

func (s *span) Type() string { return "duration" }

func newDatabaseForget() *cobra.Command {
	var f forgetFlags
	cmd := &cobra.Command{
		Use:   "forget DB [CONVERSATION…] [--containing TEXT --model M.gguf] [--since 24h]",
		Short: "Remove conversations from the disk",
		Long: "Removes whole conversations: those that list names, those in which a text contains TEXT, or\n" +
			"those with an answer not older than a time. Their files are written anew and the old ones removed.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("forget: a database folder wanted: see sdnpu db forget --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := f.forget(args[0], args[1:])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d texts forgotten\n", n)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.containing, "containing", "", "conversations in which this text occurs")
	flags.StringVar(&f.model, "model", "", "GGUF with the vocabulary, for --containing")
	flags.Var(&f.since, "since", "conversations with an answer of this last time, as in 24h")
	return cmd
}

func (f *forgetFlags) forget(path string, ids []string) (forgotten int, err error) {
	if len(ids) == 0 && f.containing == "" && f.since <= 0 {
		return 0, errors.New("forget: name conversations (sdnpu db list), --containing or --since; sdnpu db purge removes all")
	}
	if f.containing != "" && f.model == "" {
		return 0, errors.New("--containing: the texts are kept as tokens: name the model by --model")
	}
	spell, err := speller(f.model, path)
	if err != nil {
		return 0, err
	}
	after := time.Now().Add(-time.Duration(f.since)).Unix()
	return forgotten, useDatabase(path, true, func(db *tokendb.DB) error {
		meant := map[uint64]bool{}
		err := db.Documents(func(document tokendb.Document) {
			if slices.Contains(ids, conversationID(document)) || f.since > 0 && document.Time >= after ||
				f.containing != "" && strings.Contains(spell(document.Tokens), f.containing) {
				meant[document.Conversation] = true
			}
		})
		if err != nil {
			return err
		}
		if len(meant) == 0 {
			return errors.New("forget: no conversation of these is in the database")
		}
		forgotten, err = db.Forget(func(document tokendb.Document) bool { return meant[document.Conversation] })
		return err
	})
}

// speller turns a database's tokens into text; without a model into nothing.
func speller(model, path string) (func([]int32) string, error) {
	if model == "" {
		return func([]int32) string { return "" }, nil
	}
	tok, err := readTokenizer(model)
	if err != nil {
		return nil, err
	}
	owner, err := tokendb.Owner(path)
	if err != nil {
		return nil, withRemedy(err, path)
	}
	if owner.Fingerprint != tok.Fingerprint() {
		return nil, fmt.Errorf("%s: %w than that of %s", path, tokendb.ErrFingerprint, model)
	}
	return tok.Decode, nil
}

// readTokenizer reads the vocabulary of a GGUF.
func readTokenizer(path string) (*tokenizer.Tokenizer, error) {
	file, err := gguf.OpenKeys(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return tokenizer.New(file)
}
