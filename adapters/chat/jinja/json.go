package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// FromJSON decodes a JSON value and keeps the order of the keys.
func FromJSON(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := decode(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more text after the JSON value")
	}
	return v, nil
}

// decode reads one value. decode needs no limit on its recursion, because the decoder
// of encoding/json limits the nesting of values.
func decode(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n, nil
		}
		f, err := t.Float64()
		return f, err
	case json.Delim:
		if t == '[' {
			l := &List{}
			for d.More() {
				item, err := decode(d)
				if err != nil {
					return nil, err
				}
				l.Items = append(l.Items, item)
			}
			_, err := d.Token()
			return l, err
		}
		m := NewDict()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := decode(d)
			if err != nil {
				return nil, err
			}
			m.Set(key, value)
		}
		_, err := d.Token()
		return m, err
	}
	return t, nil
}

// jsonWriter writes values as Python's json.dumps does.
type jsonWriter struct {
	state  *state
	b      strings.Builder
	indent string // indent is empty if the JSON is written on one line
	item   string // item is the text between two items, and key the text between a key and its value
	key    string
	sort   bool
	ascii  bool
	line   int
}

// toJSON is the filter tojson.
func toJSON(s *state, v any, a callArguments) any {
	w := jsonWriter{state: s, item: ", ", key: ": ", line: a.line}
	named := func(name string) (any, bool) { return (&callArguments{names: a.names, named: a.named}).take(0, name) }
	if n, ok := a.take(0, "indent"); ok {
		switch n := n.(type) {
		case int64:
			w.indent = strings.Repeat(" ", int(min(max(n, 0), 64)))
			w.item = ","
		case string:
			w.indent, w.item = n, ","
		}
	}
	if list, ok := named("separators"); ok {
		if l, ok := list.(*List); ok && len(l.Items) == 2 {
			w.item, w.key = str(l.Items[0]), str(l.Items[1])
		}
	}
	if v, ok := named("sort_keys"); ok {
		w.sort = truth(v)
	}
	if v, ok := named("ensure_ascii"); ok {
		w.ascii = truth(v)
	}
	w.value(v, 0)
	text := w.b.String()
	s.allocate(len(text))
	return text
}

func (w *jsonWriter) newline(depth int) {
	if w.indent != "" {
		w.b.WriteByte('\n')
		for range depth {
			w.b.WriteString(w.indent)
		}
	}
}

func (w *jsonWriter) value(v any, depth int) {
	w.state.work(0)
	if depth > maxNesting {
		fail(w.line, "tojson: the value is nested more than %d levels deep", maxNesting)
	}
	if w.b.Len() > w.state.bytes {
		fail(w.line, "the template writes more than %d bytes", maxBytes)
	}
	switch v := v.(type) {
	case nil:
		w.b.WriteString("null")
	case bool:
		fmt.Fprint(&w.b, v)
	case int64:
		fmt.Fprint(&w.b, v)
	case float64:
		switch {
		case math.IsInf(v, 1):
			w.b.WriteString("Infinity")
		case math.IsInf(v, -1):
			w.b.WriteString("-Infinity")
		case math.IsNaN(v):
			w.b.WriteString("NaN")
		default:
			w.b.WriteString(floatText(v))
		}
	case string:
		w.text(v)
	case *List:
		w.b.WriteByte('[')
		for i, item := range v.Items {
			if i > 0 {
				w.b.WriteString(w.item)
			}
			w.newline(depth + 1)
			w.value(item, depth+1)
		}
		if len(v.Items) > 0 {
			w.newline(depth)
		}
		w.b.WriteByte(']')
	case *Dict:
		w.dict(v, depth)
	default:
		fail(w.line, "tojson: %s cannot be written", typeName(v))
	}
}

func (w *jsonWriter) dict(v *Dict, depth int) {
	keys := v.keys
	if w.sort {
		keys = slices.Clone(keys)
		slices.SortStableFunc(keys, func(a, b any) int { return strings.Compare(str(a), str(b)) })
	}
	w.b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			w.b.WriteString(w.item)
		}
		w.newline(depth + 1)
		switch k.(type) {
		case string:
			w.text(str(k))
		case nil, bool:
			w.b.WriteByte('"')
			w.value(k, depth)
			w.b.WriteByte('"')
		default:
			w.text(str(k))
		}
		w.b.WriteString(w.key)
		value, _ := v.Get(k)
		w.value(value, depth+1)
	}
	if len(keys) > 0 {
		w.newline(depth)
	}
	w.b.WriteByte('}')
}

func (w *jsonWriter) text(text string) {
	w.b.WriteByte('"')
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		switch {
		case r == '"' || r == '\\':
			w.b.WriteByte('\\')
			w.b.WriteRune(r)
		case r == '\n':
			w.b.WriteString(`\n`)
		case r == '\r':
			w.b.WriteString(`\r`)
		case r == '\t':
			w.b.WriteString(`\t`)
		case r == '\b':
			w.b.WriteString(`\b`)
		case r == '\f':
			w.b.WriteString(`\f`)
		case r < 0x20 || w.ascii && r >= 0x7f && r <= 0xffff:
			fmt.Fprintf(&w.b, `\u%04x`, r)
		case w.ascii && r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&w.b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			w.b.WriteRune(r)
		}
	}
	w.b.WriteByte('"')
}

func fromJSON(_ *state, v any, a callArguments) any {
	text, ok := v.(string)
	if !ok {
		fail(a.line, "from_json: %s is not a text", typeName(v))
	}
	value, err := FromJSON([]byte(text))
	if err != nil {
		fail(a.line, "from_json: %v", err)
	}
	return value
}
