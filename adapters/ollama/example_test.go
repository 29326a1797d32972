package ollama_test

import (
	"errors"
	"fmt"

	"github.com/sdnpu/sdnpu/adapters/ollama"
)

func ExampleFind() {
	_, err := ollama.Find("/no/such/ollama")
	fmt.Println(errors.Is(err, ollama.ErrNotFound))
	// Output: true
}
