package jinja

func (p *parser) subscript(line int, e node) node {
	p.enter()
	defer p.leave()
	var parts [3]node
	slice := false
	for i := range parts {
		if !p.is(tokenOperator, ":", "]") {
			parts[i] = p.expression()
		}
		if i == 2 || !p.accept(tokenOperator, ":") {
			break
		}
		slice = true
	}
	p.expect(tokenOperator, "]")
	if slice {
		return &slicing{line, e, parts}
	}
	if parts[0] == nil {
		fail(line, "a subscript is empty")
	}
	return &subscript{line, e, parts[0]}
}
