package choose_test

import (
	"context"
	"fmt"

	"github.com/sdnpu/sdnpu/adapters/choose"
	"github.com/sdnpu/sdnpu/adapters/launch"
)

// ExampleContest_Known asks for a stored choice without a folder of results, so Known
// returns an error.
func ExampleContest_Known() {
	c := choose.Contest{
		Settings: launch.Settings{Library: "float"},
		Options:  launch.Options{Path: "../../integration_test/models/stories260K-f16.gguf"},
	}
	_, err := c.Known(context.Background())
	fmt.Println(err)
	// Output: no recipe was measured and checked for this model yet
}
