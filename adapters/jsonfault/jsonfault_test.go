package jsonfault

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

type line struct {
	Prompt  []struct{ Content string } `json:"prompt"`
	IDs     []int32                    `json:"ids"`
	Text    string                     `json:"text"`
	Share   float64                    `json:"share"`
	Allowed *bool                      `json:"allowed"`
}

func TestErrorsNameTheFieldAndBothTypes(t *testing.T) {
	for text, want := range map[string]string{
		`{"prompt":"hello"}`:         `"prompt": got string, want array`,
		`{"prompt":["hello"]}`:       `got string, want object`,
		`{"ids":[1,2.5]}`:            `got number 2.5, want integer of 32 bits`,
		`{"ids":[99999999999]}`:      `got number 99999999999, want integer of 32 bits`,
		`{"ids":["a"]}`:              `got string, want integer of 32 bits`,
		`{"text":7}`:                 `"text": got number, want string`,
		`{"share":[1]}`:              `"share": got array, want number`,
		`{"allowed":{"why":"well"}}`: `"allowed": got object, want bool`,
		`["all"]`:                    `got array, want object`,
		`{"text":`:                   `invalid JSON after byte 8: unexpected end`,
		`hello`:                      `invalid JSON after byte 1: invalid character`,
	} {
		var l line
		err := Unmarshal([]byte(text), &l)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "Go ", text)
		require.NotContains(t, err.Error(), "cannot unmarshal", text)
	}
}

func TestExplainKeepsTheCause(t *testing.T) {
	var l line
	var kind *json.UnmarshalTypeError
	require.ErrorAs(t, Unmarshal([]byte(`{"text":7}`), &l), &kind)
	require.NoError(t, Unmarshal([]byte(`{"text":"well","unknown":1}`), &l))
	require.Equal(t, "well", l.Text)
}

func Example() {
	var line struct {
		Text string `json:"text"`
	}
	fmt.Println(Unmarshal([]byte(`{"text": 7}`), &line))
	fmt.Println(Unmarshal([]byte(`{"text"`), &line))
	// Output:
	// "text": got number, want string
	// invalid JSON after byte 7: unexpected end of JSON input
}
