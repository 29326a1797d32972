package database_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sdnpu/sdnpu/adapters/database"
)

const model = "../../integration_test/models/stories260K-f16.gguf"

// A text file becomes one conversation, which Forget removes.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	text, db := filepath.Join(dir, "notes.txt"), filepath.Join(dir, "db")
	if err := os.WriteFile(text, []byte("Once upon a time there was a cat."), 0o600); err != nil {
		panic(err)
	}
	tok, err := database.ReadTokenizer(model)
	if err != nil {
		panic(err)
	}
	importer := database.Import{Path: db, Tokenizer: tok, Report: func(string) {}}
	for range 2 {
		sum, texts, err := importer.Run(context.Background(), []string{text})
		fmt.Println(sum.Files, "added,", sum.Known, "known,", texts, "text", err)
	}
	n, err := database.Forget(db, database.Selection{Containing: "cat", Model: model})
	fmt.Println(n, "forgotten", err)
	// Output:
	// 1 added, 0 known, 1 text <nil>
	// 0 added, 1 known, 1 text <nil>
	// 1 forgotten <nil>
}
