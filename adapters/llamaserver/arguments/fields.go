package arguments

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// requestFields lists the options that give the values of fields which a request leaves out.
var requestFields = []struct {
	field string
	whole bool // whole is set if the value is a whole number
	names []string
}{
	{"temperature", false, []string{"--temp", "--temperature"}},
	{"top_k", true, []string{"--top-k"}},
	{"top_p", false, []string{"--top-p"}},
	{"min_p", false, []string{"--min-p"}},
	{"typical_p", false, []string{"--typical", "--typical-p"}},
	{"repeat_penalty", false, []string{"--repeat-penalty"}},
	{"repeat_last_n", true, []string{"--repeat-last-n"}},
	{"presence_penalty", false, []string{"--presence-penalty"}},
	{"frequency_penalty", false, []string{"--frequency-penalty"}},
	{"seed", true, []string{"--seed", "-s"}},
	{"n_predict", true, []string{"-n", "--predict", "--n-predict"}},
}

// requestField returns an option that sets the field of requests with the given name.
func requestField(name string, whole bool) option {
	return option{true, func(a *Args, v string) error {
		_, err := strconv.ParseFloat(v, 32)
		if whole {
			_, err = strconv.ParseInt(v, 10, 64)
		}
		raw := json.Number(v)
		if _, invalid := json.Marshal(raw); err != nil || invalid != nil { // JSON has neither NaN nor hexadecimal numbers
			return fmt.Errorf("%.80q is not a number", v)
		}
		if a.Fields == nil {
			a.Fields = map[string]json.Number{}
		}
		a.Fields[name] = raw
		return nil
	}}
}
