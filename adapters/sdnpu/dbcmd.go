package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/spec/tokendb"
)

func newDatabaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "db",
		Short: "Fill, look at, clean or remove a token database",
		Long: "A token database keeps what a model said, as numbers of tokens, so that later requests are\n" +
			"drafted from it and answered sooner; it never changes an answer. Answers are kept on disk only\n" +
			"where sdnpu.db (or run --db) names a folder. The files are their owner's alone and not encrypted:\n" +
			"who reads them reads the answers. forget removes answers from them, purge removes them all.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDatabaseImport(), newDatabaseList(), newDatabaseStats(), newDatabaseVerify(), newDatabaseForget(), newDatabasePurge())
	return cmd
}

// useDatabase opens an existing database, whoever's it is, and closes it.
func useDatabase(path string, write bool, use func(*tokendb.DB) error) (err error) {
	options, err := tokendb.Owner(path)
	if err != nil {
		return withRemedy(err, path)
	}
	options.ReadOnly = !write
	db, err := tokendb.Open(path, options)
	if err != nil {
		return withRemedy(err, path)
	}
	return withRemedy(errors.Join(use(db), db.Close()), path)
}

// withRemedy adds what to do to an error of a database.
func withRemedy(err error, path string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s holds no token database: %w", path, err)
	}
	for _, known := range []error{tokendb.ErrBusy, tokendb.ErrDamaged, tokendb.ErrFingerprint, tokendb.ErrForeign} {
		if errors.Is(err, known) {
			return fmt.Errorf("%w: %s", err, databaseRemedy(err, path))
		}
	}
	return err
}

// databaseStats is what stats --json prints.
type databaseStats struct {
	Texts         int     `json:"texts"`
	Conversations int     `json:"conversations"`
	Tokens        int     `json:"tokens"`
	LogTokens     int     `json:"log_tokens"` // of tokens: not in a segment yet
	Segments      int     `json:"segments"`
	Bytes         int64   `json:"bytes"`
	BytesPerToken float64 `json:"bytes_per_token"` // 0 without tokens
	Vocabulary    int     `json:"vocabulary"`
	Fingerprint   string  `json:"fingerprint"` // of the tokenizer
	Oldest        string  `json:"oldest,omitempty"`
	Newest        string  `json:"newest,omitempty"`
	OpenMS        float64 `json:"open_ms"`
}

func newDatabaseStats() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stats DB",
		Short: "Count texts, tokens and bytes",
		Args:  oneArgument("database folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			begin := time.Now()
			return useDatabase(args[0], false, func(db *tokendb.DB) error {
				s, err := statsOf(db, time.Since(begin), args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
				}
				s.print(cmd.OutOrStdout())
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (s *databaseStats) print(w io.Writer) {
	if s.Tokens == 0 {
		fmt.Fprintf(w, "no texts yet; %s, opened in %.1f ms\ntokenizer %.12s, vocabulary %d\n", bytesText(s.Bytes), s.OpenMS, s.Fingerprint, s.Vocabulary)
		return
	}
	fmt.Fprintf(w, "%d texts of %d conversations, %d tokens (%d not in a segment yet)\n%s in %d segments and a log, %.2f bytes per token; opened in %.1f ms\n",
		s.Texts, s.Conversations, s.Tokens, s.LogTokens, bytesText(s.Bytes), s.Segments, s.BytesPerToken, s.OpenMS)
	fmt.Fprintf(w, "tokenizer %.12s, vocabulary %d; %s to %s\n", s.Fingerprint, s.Vocabulary, orNone(s.Oldest), orNone(s.Newest))
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func statsOf(db *tokendb.DB, opened time.Duration, path string) (databaseStats, error) {
	owner, err := tokendb.Owner(path)
	if err != nil {
		return databaseStats{}, err
	}
	conversations := map[uint64]bool{}
	var oldest, newest int64
	err = db.Documents(func(document tokendb.Document) {
		conversations[document.Conversation] = true
		if document.Time != 0 && (oldest == 0 || document.Time < oldest) {
			oldest = document.Time
		}
		newest = max(newest, document.Time)
	})
	s, perToken := db.Stats(), 0.0
	if s.Tokens > 0 {
		perToken = float64(s.Bytes) / float64(s.Tokens)
	}
	return databaseStats{
		Texts: s.Documents, Conversations: len(conversations), Tokens: s.Tokens, LogTokens: s.LogTokens, Segments: s.Segments, Bytes: s.Bytes,
		BytesPerToken: perToken, Vocabulary: owner.Vocab, Fingerprint: fmt.Sprintf("%x", owner.Fingerprint),
		Oldest: timeText(oldest), Newest: timeText(newest), OpenMS: float64(opened.Microseconds()) / 1000,
	}, err
}

// timeText is a time as people read it, empty for none.
func timeText(seconds int64) string {
	if seconds == 0 {
		return ""
	}
	return time.Unix(seconds, 0).Format("2006-01-02 15:04:05")
}

func newDatabaseVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify DB",
		Short: "Check every byte: sums, and that each index is what its texts give",
		Args:  oneArgument("database folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return useDatabase(args[0], false, func(db *tokendb.DB) error {
				if err := db.Verify(); err != nil {
					return err
				}
				s := db.Stats()
				fmt.Fprintf(cmd.OutOrStdout(), "ok: %d texts, %d tokens\n", s.Documents, s.Tokens)
				return nil
			})
		},
	}
}

func newDatabasePurge() *cobra.Command {
	return &cobra.Command{
		Use:   "purge DB",
		Short: "Remove a token database from the disk",
		Args:  oneArgument("database folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := tokendb.Purge(args[0]); err != nil {
				return withRemedy(err, args[0])
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is removed\n", args[0])
			return nil
		},
	}
}

// conversation is a line of list.
type conversation struct {
	ID     string `json:"conversation"`
	Texts  int    `json:"texts"`
	Tokens int    `json:"tokens"`
	Newest string `json:"newest"`
	// Begin is how the first text begins; empty without the model's vocabulary.
	Begin string `json:"begin,omitempty"`
}

func newDatabaseList() *cobra.Command {
	var model string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list DB [--model M.gguf]",
		Short: "List the conversations, the oldest first; with the model, how each begins",
		Args:  oneArgument("database folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spell, err := speller(model, args[0])
			if err != nil {
				return err
			}
			return useDatabase(args[0], false, func(db *tokendb.DB) error {
				list, err := conversationsOf(db, spell)
				switch {
				case err != nil:
					return err
				case asJSON:
					return json.NewEncoder(cmd.OutOrStdout()).Encode(list)
				}
				return printConversations(cmd.OutOrStdout(), list)
			})
		},
	}
	cmd.Flags().StringVar(&model, "model", "", "GGUF with the vocabulary, to show words")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of objects")
	return cmd
}

// beginTokens is how much of a text is shown.
const beginTokens = 16

func conversationsOf(db *tokendb.DB, spell func([]int32) string) ([]conversation, error) {
	list, places := []conversation{}, map[uint64]int{}
	err := db.Documents(func(document tokendb.Document) {
		at, ok := places[document.Conversation]
		if !ok {
			at = len(list)
			places[document.Conversation] = at
			list = append(list, conversation{ID: conversationID(document), Begin: spell(document.Tokens[:min(beginTokens, len(document.Tokens))])})
		}
		c := &list[at]
		c.Texts, c.Tokens, c.Newest = c.Texts+1, c.Tokens+len(document.Tokens), timeText(document.Time)
	})
	return list, err
}

func conversationID(document tokendb.Document) string {
	return fmt.Sprintf("%016x", document.Conversation)
}

func printConversations(w io.Writer, list []conversation) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CONVERSATION\tTEXTS\tTOKENS\tNEWEST\tBEGINS")
	for _, c := range list {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\n", c.ID, c.Texts, c.Tokens, orNone(c.Newest), strings.Join(strings.Fields(c.Begin), " "))
	}
	return t.Flush()
}
