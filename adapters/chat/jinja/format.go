package jinja

import (
	"fmt"
	"strconv"
	"strings"
)

// format implements the method format of strings. The format text can contain the fields "{}",
// "{0}", "{name}", "{name.key}" and "{:spec}".
func (s *state) format(text string, a callArguments) string {
	var b strings.Builder
	automatic := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c {
			b.WriteByte(c)
			i++
			continue
		}
		if c != '{' {
			b.WriteByte(c)
			continue
		}
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			fail(a.line, "format: a brace does not end")
		}
		field, spec, _ := strings.Cut(text[i+1:i+end], ":")
		field, conversion, _ := strings.Cut(field, "!")
		i += end
		name, path, dotted := strings.Cut(field, ".")
		position := -1
		if name == "" {
			position, automatic = automatic, automatic+1
		} else if n, err := strconv.Atoi(name); err == nil && n >= 0 {
			position = n
		}
		v, ok := any(nil), false
		if position >= 0 {
			if ok = position < len(a.positional); ok {
				v = a.positional[position]
			}
		} else {
			v, ok = (&callArguments{names: a.names, named: a.named}).take(0, name)
		}
		if !ok {
			fail(a.line, "format: there is no value for {%s}", field)
		}
		if dotted {
			v = s.path(a.line, v, path)
		}
		if conversion == "r" {
			s.weigh(v, maxNesting)
			v = repr(v)
		}
		b.WriteString(s.specified(a.line, v, spec))
	}
	return s.made(b.String())
}

// specified formats a value by a format specification such as ">8" or ".2f".
func (s *state) specified(line int, v any, spec string) string {
	if spec == "" {
		return s.str(v)
	}
	fill, align := " ", byte(0)
	if len(spec) > 1 && strings.IndexByte("<>^", spec[1]) >= 0 {
		fill, align, spec = spec[:1], spec[1], spec[2:]
	} else if strings.IndexByte("<>^", spec[0]) >= 0 {
		align, spec = spec[0], spec[1:]
	}
	if rest, ok := strings.CutPrefix(spec, "0"); ok && align == 0 {
		fill, align, spec = "0", '>', rest
	}
	digits := len(spec) - len(strings.TrimLeft(spec, "0123456789"))
	width, _ := strconv.Atoi(spec[:digits])
	text := ""
	switch f, isNumber := float(v); {
	case spec[digits:] == "" || spec[digits:] == "s" || spec[digits:] == "d":
		text = s.str(v)
	case isNumber && strings.HasPrefix(spec[digits:], ".") && strings.HasSuffix(spec, "f"):
		precision, err := strconv.Atoi(strings.TrimSuffix(spec[digits+1:], "f"))
		if err != nil || precision > 100 {
			fail(line, "format: the specification %q is not supported", spec)
		}
		text = strconv.FormatFloat(f, 'f', precision, 64)
	default:
		fail(line, "format: the specification %q is not supported", spec)
	}
	pad := int64(width - len([]rune(text)))
	if align == '<' || align == 0 {
		return s.join(text, s.repeat(fill, pad))
	}
	if align == '^' {
		return s.join(s.join(s.repeat(fill, pad/2), text), s.repeat(fill, pad-pad/2))
	}
	return s.join(s.repeat(fill, pad), text)
}

// printf implements the operator % of strings, with %s, %r, %d, %i, %x,
// %X, %o, %f, %e and %g, their flags, widths and precisions.
func (s *state) printf(line int, text string, v any) string {
	values := []any{v}
	if l, ok := v.(*List); ok && l.tuple {
		values = l.Items
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		start := i
		for i++; i < len(text) && strings.IndexByte("0123456789.-+ #", text[i]) >= 0; i++ {
		}
		if i-start > 8 || i >= len(text) {
			fail(line, "%q is not a supported format", text[start:min(i, len(text))])
		}
		if text[i] == '%' {
			b.WriteByte('%')
			continue
		}
		if len(values) == 0 {
			fail(line, "there are too few values for the format %q", text)
		}
		value := values[0]
		values = values[1:]
		verb := text[start:i]
		width := len(verb) - 1
		if n, err := strconv.Atoi(strings.Trim(verb, "%-+ #0.")); err == nil {
			width = n
		}
		s.allocate(max(width, 0))
		n, isInteger := number(value)
		f, isNumber := float(value)
		switch c := text[i]; {
		case c == 's':
			fmt.Fprintf(&b, verb+"s", s.str(value))
		case c == 'r':
			s.weigh(value, maxNesting)
			fmt.Fprintf(&b, verb+"s", repr(value))
		case (c == 'd' || c == 'i') && isInteger:
			fmt.Fprintf(&b, verb+"d", n)
		case (c == 'd' || c == 'i') && isNumber:
			fmt.Fprintf(&b, verb+"d", int64(f))
		case (c == 'x' || c == 'X' || c == 'o') && isInteger:
			fmt.Fprintf(&b, verb+string(c), n)
		case (c == 'f' || c == 'e' || c == 'g') && isNumber:
			fmt.Fprintf(&b, verb+string(c), f)
		default:
			fail(line, "the format %%%c does not take %s", c, typeName(value))
		}
	}
	return s.made(b.String())
}
