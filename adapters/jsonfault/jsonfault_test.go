package jsonfault

import (
	"encoding/json"
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

func TestAWrongFieldIsNamedAsTheFileHasIt(t *testing.T) {
	for text, want := range map[string]string{
		`{"prompt":"hello"}`:         `"prompt" is a text: a list wanted`,
		`{"prompt":["hello"]}`:       `is a text: an object wanted`,
		`{"ids":[1,2.5]}`:            `a whole number that 32 bits hold wanted`,
		`{"ids":[99999999999]}`:      `99999999999: a whole number that 32 bits hold wanted`,
		`{"ids":["a"]}`:              `is a text: a whole number that 32 bits hold wanted`,
		`{"text":7}`:                 `"text" is a number: a text wanted`,
		`{"share":[1]}`:              `"share" is a list: a number wanted`,
		`{"allowed":{"why":"well"}}`: `"allowed" is an object: true or false wanted`,
		`["all"]`:                    `it is a list: an object wanted`,
		`{"text":`:                   `no JSON behind byte 8: unexpected end`,
		`hello`:                      `no JSON behind byte 1: invalid character`,
	} {
		var l line
		err := Unmarshal([]byte(text), &l)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "Go ", text)
		require.NotContains(t, err.Error(), "cannot unmarshal", text)
	}
}

func TestTheCauseStaysAndWhatIsFineIsRead(t *testing.T) {
	var l line
	var kind *json.UnmarshalTypeError
	require.ErrorAs(t, Unmarshal([]byte(`{"text":7}`), &l), &kind)
	require.NoError(t, Unmarshal([]byte(`{"text":"well","unknown":1}`), &l))
	require.Equal(t, "well", l.Text)
}
