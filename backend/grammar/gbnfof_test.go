package grammar

import (
	"fmt"
	"strings"
)

// gbnfOf writes rules in the notation GBNF.
func gbnfOf(rules []rule) string {
	var b strings.Builder
	for i, r := range rules {
		fmt.Fprintf(&b, "%s ::= %s\n", ruleName(i), gbnfExpression(r.body))
	}
	return b.String()
}

func ruleName(i int) string {
	if i == 0 {
		return "root"
	}
	return fmt.Sprintf("r%d", i)
}

func gbnfExpression(e expression) string {
	var parts []string
	switch e := e.(type) {
	case literal:
		return fmt.Sprintf(`"%s"`, string(e))
	case class:
		text := ""
		for _, r := range e {
			text += fmt.Sprintf(`\U%08x-\U%08x`, r.lo, r.hi)
		}
		return "[" + text + "]"
	case sequence:
		for _, part := range e {
			parts = append(parts, gbnfExpression(part))
		}
		return `("" ` + strings.Join(parts, " ") + ")"
	case choice:
		for _, part := range e {
			parts = append(parts, gbnfExpression(part))
		}
		return "(" + strings.Join(parts, " | ") + ")"
	case repeat:
		part := "(" + gbnfExpression(e.part) + ")"
		if e.max < 0 {
			return fmt.Sprintf("%s{%d,}", part, e.min)
		}
		return fmt.Sprintf("%s{%d,%d}", part, e.min, e.max)
	case reference:
		return ruleName(e.rule)
	}
	panic("unknown expression")
}
