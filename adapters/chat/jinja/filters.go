package jinja

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// filterFunction computes a filter. v is the value to the left of the filter, and a
// holds the filter's arguments.
type filterFunction func(s *state, v any, a callArguments) any

// filters maps names to filters. init fills this map, because filters such as map look
// up other filters in it, and Go forbids such a cycle in a declaration.
var filters map[string]filterFunction

func init() {
	filters = map[string]filterFunction{
		"tojson": toJSON, "from_json": fromJSON, "fromjson": fromJSON,
		"length": length, "count": length,
		"default": defaulted, "d": defaulted,
		"trim":   textFilter("strip"),
		"string": func(s *state, v any, _ callArguments) any { return s.str(v) },
		"safe":   func(s *state, v any, _ callArguments) any { return v },
		"upper":  textFilter("upper"), "lower": textFilter("lower"), "title": textFilter("title"), "capitalize": textFilter("capitalize"),
		"escape": escape, "e": escape, "forceescape": escape,
		"replace": func(s *state, v any, a callArguments) any {
			return s.replace(s.str(v), a.text(0, "old", ""), a.text(1, "new", ""), a.integer(2, "count", -1))
		},
		"indent": indent,
		"join":   join,
		"list":   func(s *state, v any, a callArguments) any { return s.copyList(s.items(a.line, v)) },
		"items": func(s *state, v any, a callArguments) any {
			switch v := v.(type) {
			case *Dict:
				return s.pairs(v)
			case undefined:
				return &List{}
			}
			fail(a.line, "items: %s is not a mapping", typeName(v))
			return nil
		},
		"dictsort": dictSort,
		"sort":     sorted,
		"unique":   unique,
		"reverse":  reverse,
		"first":    end(0), "last": end(-1),
		"min": extreme(true), "max": extreme(false), "sum": sum,
		"int": toInteger, "float": toFloat, "abs": absolute, "round": round,
		"select": pick(true, false), "reject": pick(false, false),
		"selectattr": pick(true, true), "rejectattr": pick(false, true),
		"map": mapped,
		"format": func(s *state, v any, a callArguments) any {
			return s.printf(a.line, s.str(v), &List{Items: a.positional, tuple: true})
		},
		"attr": func(s *state, v any, a callArguments) any { return s.attribute(a.line, v, a.text(0, "name", "")) },
		"wordcount": func(s *state, v any, _ callArguments) any {
			return int64(len(strings.FieldsFunc(s.str(v), space)))
		},
	}
}

// str returns the text of a value, and counts its bytes toward the limits of the
// rendering.
func (s *state) str(v any) string {
	if t, ok := v.(string); ok {
		return t
	}
	s.weigh(v, maxNesting)
	return s.made(str(v))
}

// weigh counts the parts of a value toward the limits before the value is written,
// because a value can contain itself, or the same list many times.
func (s *state) weigh(v any, depth int) {
	s.allocate(16)
	if depth == 0 {
		return
	}
	switch v := v.(type) {
	case string:
		s.allocate(len(v))
	case *List:
		for _, item := range v.Items {
			s.weigh(item, depth-1)
		}
	case *Dict:
		for _, k := range v.keys {
			value, _ := v.Get(k)
			s.weigh(value, depth-1)
		}
	}
}

func textFilter(name string) filterFunction {
	return func(s *state, v any, a callArguments) any { return textMethods[name](s, s.str(v), a) }
}

func (s *state) copyList(items []any) *List {
	s.allocate(16 * len(items))
	return &List{Items: slices.Clone(items)}
}

func length(s *state, v any, a callArguments) any {
	switch v := v.(type) {
	case string:
		s.work(len(v) / 16)
		return int64(utf8.RuneCountInString(v))
	case *List:
		return int64(len(v.Items))
	case *Dict:
		return int64(len(v.keys))
	case undefined:
		return int64(0)
	}
	fail(a.line, "%s has no length", typeName(v))
	return nil
}

func defaulted(_ *state, v any, a callArguments) any {
	other, ok := a.take(0, "default_value")
	if !ok {
		other = ""
	}
	boolean, _ := a.take(1, "boolean")
	if _, missing := v.(undefined); missing || truth(boolean) && !truth(v) {
		return other
	}
	return v
}

func escape(s *state, v any, _ callArguments) any {
	return s.made(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s.str(v)))
}

func indent(s *state, v any, a callArguments) any {
	margin := ""
	if width, ok := a.take(0, "width"); ok {
		if t, ok := width.(string); ok {
			margin = t
		} else {
			margin = s.repeat(" ", a.integer(0, "width", 4))
		}
	} else {
		margin = "    "
	}
	first, _ := a.take(1, "first")
	blank, _ := a.take(2, "blank")
	text := s.str(v)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if (i > 0 || truth(first)) && (line != "" || truth(blank) || i == 0) {
			lines[i] = s.join(margin, line)
		}
	}
	return s.made(strings.Join(lines, "\n"))
}

func join(s *state, v any, a callArguments) any {
	items := s.items(a.line, v)
	if name := a.text(1, "attribute", ""); name != "" {
		list := &List{}
		for _, item := range items {
			list.Items = append(list.Items, s.path(a.line, item, name))
		}
		items = list.Items
	}
	separator, _ := a.take(0, "d")
	if separator == nil {
		separator = ""
	}
	return s.joinItems(items, s.str(separator))
}

func (s *state) joinItems(items []any, separator string) string {
	var b strings.Builder
	for i, item := range items {
		if i > 0 {
			b.WriteString(separator)
		}
		text := s.str(item)
		s.allocate(len(text) + len(separator))
		b.WriteString(text)
	}
	return b.String()
}

// The method path returns the attribute of a value that a dotted name such as
// "function.name" names.
func (s *state) path(line int, v any, name string) any {
	for part := range strings.SplitSeq(name, ".") {
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			v = s.item(line, v, n)
		} else {
			v = s.item(line, v, part)
		}
	}
	return v
}

// The method `order` sorts items by the value that the function `key` returns for each
// item.
func (s *state) order(line int, items []any, reversed, caseSensitive bool, key func(any) any) {
	s.work(8 * len(items))
	slices.SortStableFunc(items, func(a, b any) int {
		s.work(1)
		x, y := key(a), key(b)
		if !caseSensitive {
			x, y = folded(x), folded(y)
		}
		if reversed {
			x, y = y, x
		}
		if before, ok := s.less(x, y); !ok {
			fail(line, "%s and %s cannot be sorted", typeName(x), typeName(y))
		} else if before {
			return -1
		}
		if before, _ := s.less(y, x); before {
			return 1
		}
		return 0
	})
}

func folded(v any) any {
	if t, ok := v.(string); ok {
		return strings.ToLower(t)
	}
	return v
}

func flag(a callArguments, position int, name string) bool {
	v, _ := a.take(position, name)
	return truth(v)
}

func dictSort(s *state, v any, a callArguments) any {
	d, ok := v.(*Dict)
	if !ok {
		fail(a.line, "dictsort: %s is not a mapping", typeName(v))
	}
	by := 0
	if a.text(1, "by", "key") == "value" {
		by = 1
	}
	l := s.pairs(d)
	s.order(a.line, l.Items, flag(a, 2, "reverse"), flag(a, 0, "case_sensitive"), func(p any) any { return p.(*List).Items[by] })
	return l
}

func sorted(s *state, v any, a callArguments) any {
	l := s.copyList(s.items(a.line, v))
	name := a.text(2, "attribute", "")
	s.order(a.line, l.Items, flag(a, 0, "reverse"), flag(a, 1, "case_sensitive"), func(item any) any {
		if name != "" {
			return s.path(a.line, item, name)
		}
		return item
	})
	return l
}

func unique(s *state, v any, a callArguments) any {
	l := &List{}
	name := a.text(1, "attribute", "")
	var seen []any
items:
	for _, item := range s.items(a.line, v) {
		key := item
		if name != "" {
			key = s.path(a.line, item, name)
		}
		if !flag(a, 0, "case_sensitive") {
			key = folded(key)
		}
		for _, other := range seen {
			s.work(1)
			if s.equal(other, key) {
				continue items
			}
		}
		seen = append(seen, key)
		l.Items = append(l.Items, item)
	}
	return l
}

func reverse(s *state, v any, a callArguments) any {
	if t, ok := v.(string); ok {
		letters := []rune(t)
		s.allocate(8 * len(t))
		slices.Reverse(letters)
		return string(letters)
	}
	l := s.copyList(s.items(a.line, v))
	slices.Reverse(l.Items)
	return l
}

func end(at int) filterFunction {
	return func(s *state, v any, a callArguments) any {
		items := s.items(a.line, v)
		if len(items) == 0 {
			return undefined{"the item of an empty list"}
		}
		return items[(at+len(items))%len(items)]
	}
}

func extreme(smallest bool) filterFunction {
	return func(s *state, v any, a callArguments) any {
		items := s.items(a.line, v)
		if len(items) == 0 {
			return undefined{"the item of an empty list"}
		}
		best := items[0]
		for _, item := range items[1:] {
			s.work(1)
			before, ok := s.less(item, best)
			if !ok {
				fail(a.line, "%s and %s cannot be compared", typeName(item), typeName(best))
			}
			if before == smallest && !s.equal(item, best) {
				best = item
			}
		}
		return best
	}
}

// pick returns the filter select (if keep is true) or reject, or with byAttribute the
// filter selectattr or rejectattr.
func pick(keep, byAttribute bool) filterFunction {
	return func(s *state, v any, a callArguments) any {
		rest, name := a.positional, ""
		if byAttribute {
			name = a.text(0, "", "")
			rest = rest[min(1, len(rest)):]
		}
		l := &List{}
		if !truth(v) {
			return l
		}
		for _, item := range s.items(a.line, v) {
			value := item
			if byAttribute {
				value = s.path(a.line, item, name)
			}
			good := truth(value)
			if len(rest) > 0 {
				good = s.test(a.line, str(rest[0]), value, callArguments{positional: rest[1:], line: a.line})
			}
			if s.work(1); good == keep {
				s.allocate(16)
				l.Items = append(l.Items, item)
			}
		}
		return l
	}
}

func mapped(s *state, v any, a callArguments) any {
	l := &List{}
	name, byAttribute := (&callArguments{names: a.names, named: a.named}).take(0, "attribute")
	if !truth(v) {
		return l
	}
	missing, hasDefault := (&callArguments{names: a.names, named: a.named}).take(0, "default")
	for _, item := range s.items(a.line, v) {
		s.allocate(32)
		if byAttribute {
			value := s.path(a.line, item, str(name))
			if _, gone := value.(undefined); gone && hasDefault {
				value = missing
			}
			l.Items = append(l.Items, value)
			continue
		}
		f, ok := filters[a.text(0, "", "")]
		if !ok {
			fail(a.line, "map: the filter %q is not supported", a.text(0, "", ""))
		}
		l.Items = append(l.Items, f(s, item, callArguments{positional: a.positional[1:], names: a.names, named: a.named, line: a.line}))
	}
	return l
}
