package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSumsOfServedRequestsAgreeWithASlowCount recounts each sum from the rows alone.
func TestSumsOfServedRequestsAgreeWithASlowCount(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var rows []Served
	for _, phone := range []string{"a", "b"} {
		for i := range 40 {
			for _, system := range []string{"off", "ours", "paper"} {
				if phone == "b" && rng.IntN(5) == 0 { // an interrupted run: not every system has answered
					continue
				}
				text := "x"
				if system != "off" && rng.IntN(4) == 0 {
					text = "y"
				}
				rows = append(rows, Served{
					Phone: phone, System: system, Task: fmt.Sprint("task", i%3), ID: fmt.Sprint(i), Output: 1 + rng.IntN(30), Passes: rng.IntN(9),
					First: 1 + rng.Float64()*50, Decode: rng.Float64() * 90, Switching: rng.Float64(), Energy: rng.Float64(), Processor: rng.Float64(),
					Peak: rng.Int64N(1 << 30), Text: text,
				})
			}
		}
	}
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	row := func(phone, system, id string) *Served {
		for i, r := range rows {
			if r.Phone == phone && r.System == system && r.ID == id {
				return &rows[i]
			}
		}
		return nil
	}
	worst := func(gains []float64) float64 {
		slices.Sort(gains)
		sum, n := 0.0, 0
		for i, g := range gains {
			if i*10 < len(gains) {
				sum, n = sum+g, n+1
			}
		}
		return sum / float64(n)
	}
	list := SumServed(rows, "off")
	require.Len(t, list, 2*4*3)
	for _, got := range list {
		var n, tokens, passes, other float64
		var first, decode, base, baseFirst, switching, energy, processor float64
		var peak int64
		var firsts, decodes, wholes []float64
		for i := range 40 {
			id := fmt.Sprint(i)
			s, o, third := row(got.Phone, got.System, id), row(got.Phone, "off", id), row(got.Phone, "paper", id)
			if s == nil || o == nil || third == nil || row(got.Phone, "ours", id) == nil || got.Task != "" && s.Task != got.Task {
				continue
			}
			n++
			tokens, passes = tokens+float64(s.Output-1), passes+float64(s.Passes)
			first, decode, base, baseFirst = first+s.First, decode+s.Decode, base+o.Decode, baseFirst+o.First
			switching, energy, processor, peak = switching+s.Switching, energy+s.Energy, processor+s.Processor, max(peak, s.Peak)
			firsts, decodes, wholes = append(firsts, o.First/s.First), append(decodes, o.Decode/s.Decode), append(wholes, (o.First+o.Decode)/(s.First+s.Decode))
			if s.Text != o.Text {
				other++
			}
		}
		require.InDelta(t, n, got.Requests, 0)
		for name, pair := range map[string][2]float64{
			"first": {first / n, got.First}, "per token": {decode / tokens, got.PerToken}, "tokens": {tokens / passes, got.TokensPerPass},
			"whole": {(first + decode) / n / 1000, got.Whole}, "switching": {switching / n, got.Switching}, "energy": {energy / n, got.Energy},
			"processor": {processor / n, got.Processor}, "peak": {float64(peak), float64(got.Peak)}, "other": {other, float64(got.Different)},
			"first gain": {baseFirst / first, got.FirstGain}, "decode gain": {base / decode, got.DecodeGain}, "whole gain": {(base + baseFirst) / (decode + first), got.WholeGain},
			"worst first": {worst(firsts), got.WorstFirst}, "worst decode": {worst(decodes), got.WorstDecode}, "worst whole": {worst(wholes), got.WorstWhole},
		} {
			require.InEpsilon(t, pair[0]+1, pair[1]+1, 1e-9, "%s of %s %s %s", name, got.Phone, got.System, got.Task)
		}
		if got.System == "off" {
			require.InDelta(t, 1, got.WholeGain, 1e-12)
			require.Zero(t, got.Different)
		}
	}
	var table bytes.Buffer
	require.NoError(t, ServedTable(&table, list))
	for i, line := range strings.Split(strings.TrimSpace(table.String()), "\n") {
		require.Equal(t, 17, strings.Count(line, "|"), "line %d", i)
	}
	require.Empty(t, SumServed([]Served{{Phone: "a", System: "ours", ID: "1"}}, "off"), "there is nothing to compare with")
}

func TestServedRequestsAreReadUpToAnIncompleteLine(t *testing.T) {
	row := Served{Phone: "a", System: "off", Task: "t", ID: "1", Output: 3, Passes: 2, First: 1, Decode: 2, Text: "x"}
	line, err := json.Marshal(row)
	require.NoError(t, err)
	two := string(line) + "\n" + string(line) + "\n"
	for cut := range len(line) {
		list, whole, err := ReadServed([]byte(two + string(line[:cut])))
		require.NoError(t, err)
		require.Equal(t, len(two), whole)
		require.Equal(t, []Served{row, row}, list)
	}
	for _, wrong := range []string{"{", "{}", `{"system":"off","output":3,"first_token_ms":0}`, `{"system":"off","output":0,"first_token_ms":1}`} {
		_, _, err := ReadServed([]byte(two + wrong + "\n"))
		require.ErrorContains(t, err, "line 3")
	}
}
