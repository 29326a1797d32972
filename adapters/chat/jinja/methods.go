package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// method is a function that a template calls on a value v, as in "v.strip()".
type method[T any] func(s *state, v T, a callArguments) any

// bind returns a method as a value that a template can call.
func bind[T any](v T, m method[T]) function {
	return func(s *state, a callArguments) any { return m(s, v, a) }
}

var dictMethods = map[string]method[*Dict]{
	"items": func(s *state, d *Dict, _ callArguments) any { return s.pairs(d) },
	"keys":  func(_ *state, d *Dict, _ callArguments) any { return &List{Items: d.keys} },
	"values": func(s *state, d *Dict, _ callArguments) any {
		l := &List{}
		for _, k := range d.keys {
			v, _ := d.Get(k)
			l.Items = append(l.Items, v)
		}
		s.allocate(16 * len(l.Items))
		return l
	},
	"get": func(_ *state, d *Dict, a callArguments) any {
		key, _ := a.take(0, "key")
		if v, ok := d.Get(key); ok {
			return v
		}
		v, _ := a.take(1, "default")
		return v
	},
	"pop": func(_ *state, d *Dict, a callArguments) any {
		key, _ := a.take(0, "key")
		v, ok := d.Get(key)
		if !ok {
			v, ok = a.take(1, "default")
			if !ok {
				fail(a.line, "pop: there is no key %s", repr(key))
			}
			return v
		}
		d.Delete(key)
		return v
	},
	"update": func(s *state, d *Dict, a callArguments) any {
		other, _ := a.take(0, "")
		if o, ok := other.(*Dict); ok {
			for _, k := range o.keys {
				v, _ := o.Get(k)
				s.setItem(a.line, d, k, v)
			}
		}
		for i, name := range a.names {
			s.setItem(a.line, d, name, a.named[i])
		}
		return nil
	},
	"copy": func(s *state, d *Dict, _ callArguments) any {
		out := NewDict()
		for _, k := range d.keys {
			v, _ := d.Get(k)
			s.setItem(0, out, k, v)
		}
		return out
	},
}

// pairs returns the keys and values of a mapping.
func (s *state) pairs(d *Dict) *List {
	l := &List{Items: make([]any, 0, len(d.keys))}
	s.allocate(80 * len(d.keys))
	for _, k := range d.keys {
		v, _ := d.Get(k)
		l.Items = append(l.Items, &List{Items: []any{k, v}, tuple: true})
	}
	return l
}

// setItem stores a value in a mapping.
func (s *state) setItem(line int, d *Dict, key, value any) {
	if _, ok := hashable(key); !ok {
		fail(line, "%s cannot be a key", typeName(key))
	}
	s.allocate(64)
	d.Set(key, value)
}

var listMethods = map[string]method[*List]{
	"append": func(s *state, l *List, a callArguments) any {
		v, _ := a.take(0, "")
		s.allocate(32)
		l.Items = append(l.Items, v)
		return nil
	},
	"extend": func(s *state, l *List, a callArguments) any {
		v, _ := a.take(0, "")
		items := s.items(a.line, v)
		s.allocate(32 * len(items))
		l.Items = append(l.Items, items...)
		return nil
	},
	"insert": func(s *state, l *List, a callArguments) any {
		v, _ := a.take(1, "")
		at := place(a.integer(0, "", 0), len(l.Items))
		s.allocate(32 + 16*len(l.Items))
		l.Items = append(l.Items[:at:at], append([]any{v}, l.Items[at:]...)...)
		return nil
	},
	"pop": func(s *state, l *List, a callArguments) any {
		at := a.integer(0, "", -1)
		if at < 0 {
			at += int64(len(l.Items))
		}
		if at < 0 || at >= int64(len(l.Items)) {
			fail(a.line, "pop: the list has %d items", len(l.Items))
		}
		s.allocate(16 * len(l.Items))
		v := l.Items[at]
		l.Items = append(l.Items[:at:at], l.Items[at+1:]...)
		return v
	},
	"index": func(s *state, l *List, a callArguments) any {
		v, _ := a.take(0, "")
		for i, item := range l.Items {
			s.work(1)
			if s.equal(item, v) {
				return int64(i)
			}
		}
		fail(a.line, "index: %s is not in the list", repr(v))
		return nil
	},
	"count": func(s *state, l *List, a callArguments) any {
		v, _ := a.take(0, "")
		n := int64(0)
		for _, item := range l.Items {
			s.work(1)
			if s.equal(item, v) {
				n++
			}
		}
		return n
	},
}

// place returns the index `at` in a list of n items, limited to the range from 0 to n.
// If `at` is negative, place counts from the end of the list.
func place(at int64, n int) int {
	if at < 0 {
		at += int64(n)
	}
	return int(min(max(at, 0), int64(n)))
}

// space reports whether Python's strip removes a character.
func space(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// strip removes white space, or the given characters, from the ends of a text.
func strip(left, right bool) method[string] {
	return func(s *state, v string, a callArguments) any {
		s.work(len(v) / 64)
		remove := space
		if set := a.text(0, "chars", ""); set != "" {
			remove = func(r rune) bool { return strings.ContainsRune(set, r) }
		}
		if left {
			v = strings.TrimLeftFunc(v, remove)
		}
		if right {
			v = strings.TrimRightFunc(v, remove)
		}
		return v
	}
}

// textMethods maps names to methods of strings. init fills this map, because the method
// format looks up methods in it, and Go forbids such a cycle in a declaration.
var textMethods map[string]method[string]

func init() {
	textMethods = map[string]method[string]{
		"strip":  strip(true, true),
		"lstrip": strip(true, false),
		"rstrip": strip(false, true),
		"upper":  func(s *state, v string, _ callArguments) any { return s.made(strings.ToUpper(v)) },
		"lower":  func(s *state, v string, _ callArguments) any { return s.made(strings.ToLower(v)) },
		"title":  func(s *state, v string, _ callArguments) any { return s.made(title(v)) },
		"capitalize": func(s *state, v string, _ callArguments) any {
			_, n := utf8.DecodeRuneInString(v)
			return s.made(strings.ToUpper(v[:n]) + strings.ToLower(v[n:]))
		},
		"split":      func(s *state, v string, a callArguments) any { return s.split(v, a, strings.SplitN) },
		"rsplit":     func(s *state, v string, a callArguments) any { return s.split(v, a, splitLast) },
		"splitlines": splitLines,
		"startswith": affix(strings.HasPrefix),
		"endswith":   affix(strings.HasSuffix),
		"removeprefix": func(_ *state, v string, a callArguments) any {
			return strings.TrimPrefix(v, a.text(0, "", ""))
		},
		"removesuffix": func(_ *state, v string, a callArguments) any {
			return strings.TrimSuffix(v, a.text(0, "", ""))
		},
		"replace": func(s *state, v string, a callArguments) any {
			return s.replace(v, a.text(0, "old", ""), a.text(1, "new", ""), a.integer(2, "count", -1))
		},
		"find": func(s *state, v string, a callArguments) any {
			s.work(len(v) / 16)
			at := strings.Index(v, a.text(0, "", ""))
			if at < 0 {
				return int64(-1)
			}
			return int64(utf8.RuneCountInString(v[:at]))
		},
		"count": func(s *state, v string, a callArguments) any {
			s.work(len(v) / 16)
			return int64(strings.Count(v, a.text(0, "", "")))
		},
		"join": func(s *state, v string, a callArguments) any {
			list, _ := a.take(0, "")
			return s.joinItems(s.items(a.line, list), v)
		},
		"format":  func(s *state, v string, a callArguments) any { return s.format(v, a) },
		"isdigit": every(unicode.IsDigit),
		"isalpha": every(unicode.IsLetter),
		"isalnum": every(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }),
		"isspace": every(space),
		"isupper": func(_ *state, v string, _ callArguments) any {
			return v == strings.ToUpper(v) && v != strings.ToLower(v)
		},
		"islower": func(_ *state, v string, _ callArguments) any {
			return v == strings.ToLower(v) && v != strings.ToUpper(v)
		},
	}
}

// made counts the memory of a new text toward the limits, and returns the text.
func (s *state) made(text string) string {
	s.allocate(len(text))
	return text
}

func every(is func(rune) bool) method[string] {
	return func(s *state, v string, _ callArguments) any {
		s.work(len(v) / 16)
		return v != "" && strings.IndexFunc(v, func(r rune) bool { return !is(r) }) < 0
	}
}

// affix returns the method startswith or endswith. The methods startswith and endswith also
// take a tuple of texts.
func affix(has func(text, part string) bool) method[string] {
	return func(_ *state, v string, a callArguments) any {
		part, _ := a.take(0, "")
		if l, ok := part.(*List); ok {
			for _, item := range l.Items {
				if t, ok := item.(string); ok && has(v, t) {
					return true
				}
			}
			return false
		}
		t, ok := part.(string)
		if !ok {
			fail(a.line, "startswith and endswith need a text, not %s", typeName(part))
		}
		return has(v, t)
	}
}

func title(v string) string {
	var b strings.Builder
	inWord := false
	for _, r := range v {
		if inWord {
			b.WriteRune(unicode.ToLower(r))
		} else {
			b.WriteRune(unicode.ToTitle(r))
		}
		inWord = unicode.IsLetter(r)
	}
	return b.String()
}

// split implements the method split, and with cut = splitLast the method rsplit.
func (s *state) split(v string, a callArguments, cut func(text, separator string, n int) []string) any {
	most := a.integer(1, "maxsplit", -1)
	n := int(min(max(most, -1), 1<<30)) + 1
	if most < 0 {
		n = -1
	}
	separator, ok := a.take(0, "sep")
	s.allocate(16*len(v) + 16)
	var parts []string
	if !ok || separator == nil {
		parts = strings.FieldsFunc(v, space)
		if n > 0 && len(parts) > n {
			fail(a.line, "split: maxsplit needs a separator")
		}
	} else {
		t, _ := separator.(string)
		if t == "" {
			fail(a.line, "split: the separator is empty")
		}
		parts = cut(v, t, n)
	}
	l := &List{Items: make([]any, len(parts))}
	for i, p := range parts {
		l.Items[i] = p
	}
	return l
}

// splitLast splits a text into at most n parts, at its last separators.
func splitLast(v, separator string, n int) []string {
	if n < 0 {
		return strings.Split(v, separator)
	}
	var parts []string
	for len(parts)+1 < n {
		at := strings.LastIndex(v, separator)
		if at < 0 {
			break
		}
		parts = append(parts, v[at+len(separator):])
		v = v[:at]
	}
	parts = append(parts, v)
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return parts
}

func splitLines(s *state, v string, _ callArguments) any {
	s.allocate(16 * len(v))
	l := &List{}
	for line := range strings.Lines(v) {
		l.Items = append(l.Items, strings.TrimRight(line, "\r\n"))
	}
	return l
}

// replace replaces a part of a text, at most count times.
func (s *state) replace(v, old, with string, count int64) string {
	n := int64(strings.Count(v, old))
	if count >= 0 {
		n = min(n, count)
	}
	if grow := n * int64(len(with)); grow > maxBytes {
		s.allocate(maxBytes + 1)
	}
	s.allocate(len(v) + int(n)*len(with))
	return strings.Replace(v, old, with, int(n))
}
