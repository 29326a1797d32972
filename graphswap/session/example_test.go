package session_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/graphswap/session"
)

// In ExampleSession, after three turns with short prompts and answers, the session keeps
// decode graphs of 32 rows and loads nothing.
func ExampleSession() {
	profile, err := graphswap.Device("sd8gen2")
	if err != nil {
		panic(err)
	}
	cost, err := profile.Cost("llama3.2-3b")
	if err != nil {
		panic(err)
	}
	s, err := session.New(cost, graphswap.Setting{
		Blocks: []int{4, 7}, PrefillRows: []int{256}, DecodeRows: []int{8, 32}, Context: 4096, Accept: 4.21,
	})
	if err != nil {
		panic(err)
	}
	for range 3 {
		choice, err := s.Choose(48, 0)
		if err != nil {
			panic(err)
		}
		fmt.Println(choice.Plan.Name, choice.Config.Blocks, choice.Config.PrefillRows, choice.Config.DecodeRows, len(choice.Plan.Loads))
		if err := s.Done(choice, 12); err != nil {
			panic(err)
		}
	}
	// Output:
	// decode_only 4 256 32 0
	// decode_only 4 256 32 0
	// decode_only 4 256 32 0
}
