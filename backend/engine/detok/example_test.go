package detok_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/backend/engine/detok"
)

// The bytes of a character and of a stop string may be spread over tokens.
func Example() {
	text := detok.NewText([]string{"\nUser:"})
	for id, bytes := range []string{"caf", "\xc3", "\xa9\nUs", "er:", " hello"} {
		piece := text.Add([]byte(bytes), detok.TokenLogprob{ID: int32(id)})
		fmt.Printf("%q ", piece.Text)
		if text.Stopped() {
			break
		}
	}
	fmt.Printf("%q\n", text.Finish().Text)
	// Output: "caf" "" "é" "" ""
}
