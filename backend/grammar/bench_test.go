package grammar

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

var qwen = sync.OnceValues(func() (*tokenizer.Tokenizer, *Vocabulary) {
	f, err := gguf.Open(filepath.Join(os.Getenv("SDNPU_DATA"), "tokenizers", "ggml-vocab-qwen2.gguf"))
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	tok, err := tokenizer.New(f)
	if err != nil {
		return nil, nil
	}
	return tok, NewVocabulary(tok.VocabSize(), tok.Piece, tok.IsEOG)
})

// qwenVocabulary returns a vocabulary of 151,936 tokens.
func qwenVocabulary(t testing.TB) (*tokenizer.Tokenizer, *Vocabulary) {
	tok, v := qwen()
	if v == nil {
		t.Skip("no vocabulary: set SDNPU_DATA to the folder with tokenizers/ggml-vocab-qwen2.gguf")
	}
	return tok, v
}

const longAnswer = `{"name": "Ada Lovelace", "title": "The \"first\" programmer", "born": 1815, "ratio": -2.5e-3,
 "tags": ["analytical engine", "mathematics", "poetical science", "naïve café 東京"], "nested": {"deep": [[[{"x": null}]]], "ok": true},
 "text": "She was the first to recognise that the machine had applications beyond pure calculation, and published the first algorithm."}`

// BenchmarkMask reports the time of a mask for each token of a JSON text: with a new
// grammar (cold), and with a grammar that has seen the text (warm). SDNPU_MASKS may name a
// file with other schemas and texts: [{"name", "schema", "text"}].
func BenchmarkMask(b *testing.B) {
	tok, v := qwenVocabulary(b)
	type example struct {
		Name, Text string
		Schema     json.RawMessage
	}
	cases := []example{{"any object", longAnswer, json.RawMessage(`{"type":"object"}`)}}
	if file := os.Getenv("SDNPU_MASKS"); file != "" {
		raw, err := os.ReadFile(file)
		require.NoError(b, err)
		require.NoError(b, json.Unmarshal(raw, &cases))
	}
	for _, c := range cases {
		ids, err := tok.Encode(c.Text, tokenizer.EncodeOptions{})
		require.NoError(b, err)
		for _, mode := range []string{"cold", "warm"} {
			b.Run(c.Name+"/"+mode, func(b *testing.B) {
				g, err := ParseSchema(c.Schema)
				require.NoError(b, err)
				var times []time.Duration
				for b.Loop() {
					if mode == "cold" {
						g, err = ParseSchema(c.Schema)
						require.NoError(b, err)
					}
					m := g.NewMatcher(v)
					for _, id := range ids {
						began := time.Now()
						ok := m.Mask().Has(id)
						times = append(times, time.Since(began))
						if !ok || !m.Accept(id) {
							b.Fatalf("%q is not allowed", tok.Piece(id))
						}
					}
				}
				reportQuantiles(b, times)
			})
		}
	}
}

func reportQuantiles(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "p99-µs")
	b.ReportMetric(float64(times[len(times)-1].Nanoseconds())/1e3, "max-µs")
}

func BenchmarkVocabulary(b *testing.B) {
	tok, _ := qwenVocabulary(b)
	b.ReportAllocs()
	for b.Loop() {
		NewVocabulary(tok.VocabSize(), tok.Piece, tok.IsEOG)
	}
}

// BenchmarkSchema reports the time to compile a schema of 50 properties of several types.
func BenchmarkSchema(b *testing.B) {
	raw := []byte(wideSchema(50))
	b.ReportAllocs()
	for b.Loop() {
		_, err := ParseSchema(raw)
		require.NoError(b, err)
	}
}

// wideSchema returns a schema of n properties, half of which are required.
func wideSchema(n int) string {
	kinds := []string{
		`{"type":"string"}`, `{"type":"integer","minimum":0,"maximum":12345}`, `{"type":"array","items":{"type":"number"},"maxItems":5}`,
		`{"enum":["red","green","blue"]}`, `{"type":["string","null"],"maxLength":40}`,
		`{"type":"object","properties":{"x":{"type":"boolean"},"y":{"type":"string","format":"date-time"}},"required":["x"]}`,
	}
	var properties, required []string
	for i := range n {
		properties = append(properties, fmt.Sprintf(`"property_%d":%s`, i, kinds[i%len(kinds)]))
		if i%2 == 0 {
			required = append(required, fmt.Sprintf(`"property_%d"`, i))
		}
	}
	return `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `]}`
}
