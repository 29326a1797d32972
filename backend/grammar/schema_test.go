package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func parseSchema(t testing.TB, schema string) *Grammar {
	t.Helper()
	g, err := ParseSchema([]byte(schema))
	require.NoError(t, err, schema)
	return g
}

func TestSchemasAllowTheirValues(t *testing.T) {
	for _, tt := range []struct {
		schema    string
		good, bad []string
	}{
		{`{}`, []string{`{}`, `[1, "a"]`, `null`, `-1.5e3`}, []string{``, `{"a"}`, `01`}},
		{`true`, []string{`"é\ud83d\ude00\n"`}, []string{`"\ud83d"`, "\"\n\"", `"\x"`}},
		{`{"type":"object"}`, []string{`{}`, `{"a": {"b": []}}`}, []string{`[]`, `{"a":1,}`}},
		{`{"type":["string","null"]}`, []string{`"a"`, `null`}, []string{`1`}},
		{
			`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},"required":["b"]}`,
			[]string{`{"a":1,"b":"x","c":null}`, `{ "b": "x" }`, `{"b":"x","c":null}`, `{"a" : 1 , "b":""}`},
			[]string{`{}`, `{"a":1}`, `{"b":"x","a":1}`, `{"b":"x","d":1}`, `{"b":"x","b":"y"}`, `{"a":1.5,"b":"x"}`},
		},
		{`{"properties":{"a":true,"b":true}}`, []string{`{}`, `{"a":1}`, `{"b":1}`, `{"a":[],"b":1}`, `{ }`}, []string{`{"b":1,"a":1}`, `{,"a":1}`, `{"c":1}`}},
		{
			`{"properties":{"ab":{"type":"integer"}},"additionalProperties":{"type":"string"}}`,
			[]string{`{"ab":1}`, `{"ab":1,"a":"x","abc":"","":"","é\"\\":"z"}`, `{"x":"y"}`, `{}`},
			[]string{`{"ab":"x"}`, `{"a":1}`, `{"\u0061b":"x"}`, `{"x":"y","ab":"z"}`},
		},
		{`{"type":"object","additionalProperties":false}`, []string{`{}`, `{ }`}, []string{`{"a":1}`}},
		{`{"type":"object","required":["x"]}`, []string{`{"x":1}`, `{"x":1,"y":2}`}, []string{`{}`, `{"y":2}`}},
		{`{"properties":{"a":false,"b":true}}`, []string{`{}`, `{"b":1}`}, []string{`{"a":1}`}},
		{`{"type":"array","items":{"type":"boolean"}}`, []string{`[]`, `[true]`, `[ true , false ]`, "[\n\t true]"}, []string{`[1]`, `[true,]`, "[\n\n\ntrue]"}},
		{`{"items":{"type":"integer"},"minItems":2,"maxItems":3}`, []string{`[1,2]`, `[1,2,3]`}, []string{`[]`, `[1]`, `[1,2,3,4]`}},
		{`{"prefixItems":[{"type":"integer"},{"type":"string"}]}`, []string{`[1,"a"]`}, []string{`[]`, `[1]`, `["a",1]`, `[1,"a",2]`}},
		{`{"prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"},"minItems":1,"maxItems":4}`, []string{`[1]`, `[1,"a"]`, `[1,"a",null,null]`}, []string{`[]`, `[1,null]`, `[1,"a",1]`, `[1,"a",null,null,null]`}},
		{`{"prefixItems":[{"type":"integer"}],"items":false,"minItems":0}`, []string{`[]`, `[1]`}, []string{`[1,1]`}},
		{`{"items":false}`, []string{`[]`}, []string{`[1]`}},
		{`{"maxItems":0}`, []string{`[]`, `[ ]`}, []string{`[1]`}},
		{`{"enum":["a","b\"",1,null,{"x":[1]}]}`, []string{`"a"`, `"b\""`, `1`, `null`, `{"x":[1]}`}, []string{`"b"`, `2`}},
		{`{"type":"string","enum":["a",1]}`, []string{`"a"`}, []string{`1`}},
		{`{"const":"é\n<"}`, []string{`"é\n<"`}, []string{`"é"`}},
		{`{"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]}`, []string{`1`, `"a"`}, []string{`"ab"`, `null`}},
		{`{"type":"object","properties":{"k":{"type":"string"}},"required":["k"],"oneOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"null"}},"required":["b"]}]}`, []string{`{"k":"","a":1}`, `{"k":"","b":null}`}, []string{`{"k":""}`, `{"a":1}`, `{"k":"","a":1,"b":null}`}},
		{`{"allOf":[{"properties":{"a":{"type":"number"}},"required":["a"]},{"properties":{"a":{"type":"integer","minimum":3},"b":{"type":"null"}}}]}`, []string{`{"a":3}`, `{"a":4,"b":null}`}, []string{`{"a":2}`, `{"b":null}`, `{"a":3.5}`}},
		{`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v","next"]}}}`, []string{`{"v":1,"next":null}`, `{"v":1,"next":{"v":2,"next":null}}`}, []string{`{"v":1}`, `{"v":1,"next":{}}`}},
		{`{"$defs":{"a/b~":{"type":"integer"}},"allOf":[{"$ref":"#/$defs/a~1b~0"}],"description":"one"}`, []string{`1`}, []string{`"a"`}},
		{`{"$defs":{"s":{"type":"string"}},"$ref":"#/$defs/s","maxLength":1}`, []string{`"a"`}, []string{`"ab"`, `1`}},
		{`{"type":"array","items":{"$ref":"#"}}`, []string{`[]`, `[[],[[]]]`}, []string{`[1]`}},
		{`{"minLength":2,"maxLength":3}`, []string{`"ab"`, `"é\n😀"`, `"\ud83d\ude00a"`}, []string{`"a"`, `"abcd"`, `"\ud83d\ude00"`}},
		{`{"type":"string","format":"uuid"}`, []string{`"123e4567-e89b-12d3-a456-426614174000"`}, []string{`"123e4567"`}},
		{`{"type":"string","format":"email"}`, []string{`"x"`}, []string{`1`}},
		{`{"type":"string","format":"date-time"}`, []string{`"2024-02-29T23:59:59.123Z"`, `"2024-01-31T00:00:00+01:30"`}, []string{`"2023-02-29T00:00:00Z"`, `"2024-01-01T24:00:00Z"`, `"2024-01-01"`}},
		{`{"type":"string","pattern":"^(\\([0-9]{3}\\))?[0-9]{3}-[0-9]{4}$"}`, []string{`"555-1234"`, `"(888)555-1234"`}, []string{`"5551234"`, `"x555-1234"`}},
		{`{"pattern":"^\\ud83d\\ude00\\u{1f600}[\\ud83d\\ude00-\\u{1f602}]$"}`, []string{`"😀😀😁"`}, []string{`"😀😀x"`, `"😀😁😀"`, `"��😀😀"`}},
		{`{"pattern":"^[\"\\\\\\u00e9]+$"}`, []string{`"\"\\é"`}, []string{`"e"`, `""`}},
		{`{"type":"integer","exclusiveMinimum":-3,"maximum":12.5}`, []string{`-2`, `0`, `12`}, []string{`-3`, `13`, `-0`, `00`, `1.0`}},
		{`{"type":"integer","minimum":1,"exclusiveMinimum":true}`, []string{`2`}, []string{`1`}},
		{`{"title":"x","not":{"type":"integer"},"if":true,"type":"number"}`, []string{`1`, `1.5`}, []string{`"a"`}},
	} {
		g := parseSchema(t, tt.schema)
		for _, text := range tt.good {
			require.True(t, json.Valid([]byte(text)))
			require.True(t, readsAll(g, text), "%s should allow %s", tt.schema, text)
		}
		for _, text := range tt.bad {
			require.False(t, readsAll(g, text), "%s should not allow %s", tt.schema, text)
		}
	}
}

func TestSchemaErrorsNameThePlace(t *testing.T) {
	for _, tt := range []struct{ schema, path, reason string }{
		{`{`, "#", "not JSON"},
		{`{} {}`, "#", "not JSON"},
		{`3`, "#", "object or a boolean"},
		{`false`, "#", "allows no value"},
		{`{"type":"integer","minimum":3,"maximum":2}`, "#", "allows no value"},
		{`{"type":"strin"}`, "#/type", `unknown type "strin"`},
		{`{"type":3}`, "#/type", "must be a type"},
		{`{"properties":{"a":{"items":{"type":"x"}}}}`, "#/properties/a/items/type", "unknown type"},
		{`{"properties":[]}`, "#/properties", "must be an object"},
		{`{"required":"a"}`, "#/required", "must be a list"},
		{`{"anyOf":[]}`, "#/anyOf", "list with at least one entry"},
		{`{"$ref":"#/$defs/x"}`, "#/$ref", "does not exist"},
		{`{"$ref":"http://x/y"}`, "#/$ref", "is not in this schema"},
		{`{"$ref":"#"}`, "#", "refers to itself"},
		{`{"$ref":"#","type":"string"}`, "#", "refers to itself"},
		{`{"minItems":-1}`, "#/minItems", "whole number"},
		{`{"minItems":99999}`, "#/minItems", "at most 2000"},
		{`{"maxLength":"a"}`, "#/maxLength", "whole number"},
		{`{"pattern":"("}`, "#/pattern", "no regular expression"},
		{`{"type":"integer","minimum":1e400}`, "#/minimum", "between -2^64 and 2^64"},
		{`{"enum":3}`, "#/enum", "must be a list"},
		{`{"allOf":[{"pattern":"a"},{"pattern":"b"}]}`, "#", `"pattern" cannot be combined`},
	} {
		_, err := ParseSchema([]byte(tt.schema))
		var wrong *SchemaError
		require.ErrorAs(t, err, &wrong, tt.schema)
		require.Equal(t, tt.path, wrong.Path, "%s: %v", tt.schema, err)
		require.Contains(t, wrong.Reason, tt.reason, tt.schema)
	}
}

func TestHugeSchemasAreRefusedSoon(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 300) + "{}" + strings.Repeat("}", 300)
	twice := `{"$defs":{"d0":{"type":"string"}`
	for i := range 40 {
		twice += fmt.Sprintf(`,"d%d":{"allOf":[{"anyOf":[{"$ref":"#/$defs/d%d"},{"maxLength":%d}]},{"anyOf":[{"$ref":"#/$defs/d%d"},{"minLength":1}]}]}`, i+1, i, i, i)
	}
	twice += `},"$ref":"#/$defs/d40","description":"x","maxLength":9}`
	large := `{"prefixItems":[` + strings.Repeat(`{"type":"array","items":{"minLength":2000},"minItems":2000},`, 100) + `true]}`
	for _, schema := range []string{deep, twice, large, `{"const":"` + strings.Repeat("a", maxSource) + `"}`} {
		began := time.Now()
		_, err := ParseSchema([]byte(schema))
		require.Error(t, err)
		var wrong *SchemaError
		require.True(t, errors.Is(err, ErrTooComplex) || errors.As(err, &wrong), "%v", err)
		t.Logf("%.60s: %v after %v", schema, err, time.Since(began))
	}
}

func TestBoundsOfIntegersAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for range 400 {
		span := []int{5, 30, 300, 3000, 100000}[rng.IntN(5)]
		lo, hi := rng.IntN(2*span)-span, rng.IntN(2*span)-span
		lo, hi = min(lo, hi), max(lo, hi)
		g := parseSchema(t, fmt.Sprintf(`{"type":"integer","minimum":%d,"maximum":%d}`, lo, hi))
		for range 60 {
			n := []int{lo - 1, lo, hi, hi + 1, rng.IntN(4*span) - 2*span, lo + rng.IntN(hi-lo+1)}[rng.IntN(6)]
			require.Equal(t, lo <= n && n <= hi, readsAll(g, fmt.Sprint(n)), "%d in %d..%d", n, lo, hi)
		}
		low := parseSchema(t, fmt.Sprintf(`{"type":"integer","minimum":%d}`, lo))
		high := parseSchema(t, fmt.Sprintf(`{"type":"integer","maximum":%d}`, hi))
		for range 30 {
			n := rng.IntN(4*span) - 2*span
			require.Equal(t, lo <= n, readsAll(low, fmt.Sprint(n)), "%d from %d", n, lo)
			require.Equal(t, n <= hi, readsAll(high, fmt.Sprint(n)), "%d up to %d", n, hi)
		}
	}
}

func TestDatesAreThoseThatExist(t *testing.T) {
	g := parseSchema(t, `{"type":"string","format":"date"}`)
	for _, year := range []int{1, 4, 1900, 1999, 2000, 2023, 2024, 2100, 2400, 9996} {
		for month := range 14 {
			for day := range 33 {
				text := fmt.Sprintf("%04d-%02d-%02d", year, month, day)
				_, err := time.Parse(time.DateOnly, text)
				require.Equal(t, err == nil, readsAll(g, `"`+text+`"`), text)
			}
		}
	}
}

func TestPatternsMatchAsRegularExpressions(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 9))
	for _, pattern := range []string{
		`^a+b?$`, `ab`, `^ab`, `ab$`, `^(a|b)+c{1,2}$`, `^a|b$`, `[^ab]`, `^[a-c"\\]{2,}$`, `^.$`, `^\d{2}\w*$`, `^\s?a`, `a*`, `^(?:a|bc)*$`, `^\u0061\/b\-c$`, `^$`, `^[[a]+$`, `^é[à-ü]$`,
	} {
		goPattern := strings.NewReplacer(`\u0061`, "a", `\/`, "/", `[[a]`, `[\[a]`).Replace(pattern)
		re := regexp.MustCompile(goPattern)
		quoted, err := json.Marshal(pattern)
		require.NoError(t, err)
		g := parseSchema(t, `{"pattern":`+string(quoted)+`}`)
		matched := 0
		for range 3000 {
			text := ""
			for range rng.IntN(6) {
				text += []string{"a", "b", "c", "ab", "1", "/", "-", "\"", "\\", "é", "ü", " ", "\t", "[", "_"}[rng.IntN(15)]
			}
			if rng.IntN(50) == 0 {
				text = []string{"a/b-c", "éà", "12"}[rng.IntN(3)]
			}
			if re.MatchString(text) {
				matched++
			}
			require.Equal(t, re.MatchString(text), readsAll(g, quote(text)), "%s on %q", pattern, text)
		}
		require.Positive(t, matched, pattern)
	}
	for _, pattern := range []string{`^(?!x).*$`, `(a)\\1`, `\\bword`, `(?<=a)b`, `^a$^b`, `^[\\ud800-\\udbff][\\udc00-\\udfff]$`, `^\\ude00\\ud83d$`, `^\\u{110000}$`, `^\\u12$`} {
		g := parseSchema(t, `{"pattern":"`+pattern+`"}`)
		require.True(t, readsAll(g, `"anything"`), "%s", pattern)
	}
}

func FuzzParseSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"enum":[1,"é"]}},"required":["a"]}`))
	f.Add([]byte(`{"allOf":[{"anyOf":[{"minLength":1},{"pattern":"^a[^b]\\d{2}$"}]},{"prefixItems":[true],"items":false,"maximum":3.5}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		g, err := ParseSchema(raw)
		if err != nil {
			var wrong *SchemaError
			if !errors.Is(err, ErrTooComplex) && !errors.As(err, &wrong) {
				t.Fatal(err)
			}
			return
		}
		// FuzzParseSchema builds a text from the first allowed byte each time, and requires
		// that a complete text is JSON.
		m, text := g.NewMatcher(testVocabulary()), []byte(nil)
		for len(text) < 300 && !m.Final() {
			before := len(text)
			for _, b := range []byte("\"}]0e1ant\\,:{[ulrsf-.") {
				if c := m.Clone(); c.AcceptBytes([]byte{b}) {
					m, text = c, append(text, b)
					break
				}
			}
			if len(text) == before {
				return
			}
		}
		if m.Final() && !json.Valid(text) {
			t.Fatalf("%s allows %q", raw, text)
		}
	})
}
