package choose_test

import (
	"context"
	"fmt"

	"github.com/sdnpu/sdnpu/adapters/choose"
	"github.com/sdnpu/sdnpu/adapters/launch"
)

// The contest has no folder for results, so it knows no chosen recipe.
func ExampleContest_Known() {
	c := choose.Contest{
		Settings: launch.Settings{Library: "float"},
		Options:  launch.Options{Path: "../../integration_test/models/stories260K-f16.gguf"},
	}
	_, err := c.Known(context.Background())
	fmt.Println(err)
	// Output: no recipe was measured and checked for this model yet
}
