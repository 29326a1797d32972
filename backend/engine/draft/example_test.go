package draft_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend/engine/draft"
	"github.com/sdnpu/sdnpu/spec"
)

func ExampleDrafter() {
	mode, err := draft.Parse("sam")
	if err != nil {
		panic(err)
	}
	d := draft.New(mode, nil, &draft.Experience{})
	d.Begin([]int32{1, 2, 3, 4, 1, 2}) // the prompt
	var tree spec.Tree
	d.Propose(&tree, 2)
	fmt.Println(tree.Tokens)
	d.Commit([]int32{3}) // the model's choice
	d.End(true)
	// Output: [3 4]
}
