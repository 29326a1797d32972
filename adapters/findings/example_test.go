package findings_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sdnpu/sdnpu/adapters/findings"
)

// A check that failed its gate makes the recipe unusable.
func ExampleCheck_GateError() {
	c := findings.Check{Recipe: "w8a16", Positions: 1000, Top1: 0.9}
	c.Perplexity.Ratio = 1.2
	fmt.Println(errors.Is(c.GateError(), findings.ErrGate))
	fmt.Println(findings.GateOf("w8a16").Verdict(&c))
	// Output:
	// true
	// failed: the same token at 90.00 % of 1000 positions; perplexity 0.0000, +20.00 % against float
}

// A store lists what it keeps, the most recently used result first.
func ExampleStore_List() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	s := findings.Store{Cache: dir}
	c := findings.Check{Model: "Llama", Digest: "3f9a", Recipe: "w8", Positions: findings.MinPositions, Top1: 1}
	if err := s.KeepCheck(context.Background(), &c); err != nil {
		panic(err)
	}
	entries, err := s.List()
	for _, e := range entries {
		fmt.Println(e.Kind, e.Key, e.Model)
	}
	fmt.Println(err)
	// Output:
	// check 3f9a-w8 Llama
	// <nil>
}
