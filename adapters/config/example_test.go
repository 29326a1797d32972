package config_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/adapters/config"
)

// A variable of the environment overrides the same key in a model's GGUF.
func ExampleResolve() {
	gguf := config.Source{Name: "the model", Lookup: func(k config.Key) (string, bool) {
		value, ok := map[string]string{"sdnpu.enabled": "true", "sdnpu.recipe": "w8"}[k.Name]
		return value, ok
	}}
	environment := config.Environment(func(name string) (string, bool) {
		return "w8a16", name == "SDNPU_RECIPE"
	})
	c, err := config.Resolve(gguf, environment)
	fmt.Println(c.Enabled, c.Recipe, c.Origin["sdnpu.recipe"], err)
	// Output: true w8a16 environment <nil>
}
