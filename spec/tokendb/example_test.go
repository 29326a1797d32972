package tokendb_test

import (
	"fmt"
	"os"

	"github.com/sdnpu/sdnpu/spec"
	"github.com/sdnpu/sdnpu/spec/tokendb"
)

func ExampleDB() {
	dir, err := os.MkdirTemp("", "tokendb")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := tokendb.Open(dir, tokendb.Options{Vocab: 100})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if err := db.Commit(tokendb.Document{Tokens: []int32{5, 7, 9, 11}}); err != nil {
		panic(err)
	}

	drafter := spec.NewDrafter(3)
	drafter.Use(db, 1)
	var tree spec.Tree
	err = db.Read(func() error { // a drafter may read the database only inside Read
		drafter.Propose(&tree, []int32{5, 7}, 2)
		return nil
	})
	fmt.Println(tree.Tokens, err)
	// Output: [9 11] <nil>
}
