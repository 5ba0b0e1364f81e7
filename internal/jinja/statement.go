package jinja

import (
	"slices"

	"github.com/warmpath/warmpath/internal/jinjalex"
)

// body reads statements until a tag that begins with one of the words, which it reads too and returns.
func (p *parser) body(until ...string) ([]node, string, error) {
	leave, err := p.deeper()
	if err != nil {
		return nil, "", err
	}
	defer leave()
	var nodes []node
	for {
		t := p.next()
		switch t.Kind {
		case jinjalex.EOF:
			if len(until) > 0 {
				return nil, "", p.fail("%q is missing at the end", until[0])
			}
			return nodes, "", nil
		case jinjalex.Data:
			nodes = append(nodes, &textNode{t.Text})
		case jinjalex.VarBegin:
			n, err := p.output()
			if err != nil {
				return nil, "", err
			}
			nodes = append(nodes, n)
		case jinjalex.BlockBegin:
			word, err := p.wantName()
			if err != nil {
				return nil, "", err
			}
			if slices.Contains(until, word) {
				return nodes, word, nil
			}
			n, err := p.statement(word)
			if err != nil {
				return nil, "", err
			}
			nodes = append(nodes, n...)
		default:
			return nil, "", p.fail("unexpected %q", t.Text)
		}
	}
}

func (p *parser) output() (node, error) {
	e, err := p.tuple()
	if err != nil {
		return nil, err
	}
	if p.next().Kind != jinjalex.VarEnd {
		p.at--
		return nil, p.fail("unexpected %q", p.peek().Text)
	}
	return &outputNode{e}, nil
}

// raw is whether an expression surely gives what the filter safe made: what is joined to that is escaped as HTML, which surprises authors
// of templates, and is what their models see.
func raw(e expr) bool {
	switch e := e.(type) {
	case *filterExpr:
		return e.name == "safe"
	case *binaryExpr:
		return e.rawLeft || e.rawRight
	}
	return false
}

// markup is whether an expression may give that. Where it is not sure, a join is refused.
func (p *parser) markup(e expr) bool {
	switch e := e.(type) {
	case *filterExpr:
		return e.name == "safe" || e.of != nil && e.name != "length" && p.markup(e.of)
	case *ifExpr:
		return p.markup(e.then) || e.otherwise != nil && p.markup(e.otherwise)
	case *nameExpr:
		return p.safe[e.name]
	case *binaryExpr:
		return raw(e)
	}
	return false
}

func (p *parser) blockEnd() error {
	if t := p.next(); t.Kind != jinjalex.BlockEnd {
		p.at--
		return p.fail("unexpected %q at the end of a tag", t.Text)
	}
	return nil
}

// closed reads a body with its end tag.
func (p *parser) closed(end string) ([]node, error) {
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	nodes, _, err := p.body(end)
	if err != nil {
		return nil, err
	}
	return nodes, p.blockEnd()
}

func (p *parser) statement(word string) ([]node, error) {
	one := func(n node, err error) ([]node, error) { return []node{n}, err }
	switch word {
	case "if":
		return one(p.ifs())
	case "for":
		return one(p.loop())
	case "set":
		return one(p.set())
	case "macro":
		return one(p.macro())
	case "call":
		return one(p.callBlock())
	case "filter":
		return one(p.filterBlock())
	case "with":
		return one(p.with())
	case "generation":
		return p.closed("endgeneration")
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.fail("%s outside a loop", word)
		}
		return []node{&jumpNode{word == "break"}}, p.blockEnd()
	}
	return nil, p.unknown("statement", word)
}

func (p *parser) ifs() (node, error) {
	n := &ifNode{}
	for word := "if"; ; {
		var test expr
		var err error
		if word != "else" {
			if test, err = p.tuple(); err != nil {
				return nil, err
			}
		}
		if err := p.blockEnd(); err != nil {
			return nil, err
		}
		until := []string{"endif", "elif", "else"}
		if word == "else" {
			until = until[:1]
		}
		nodes, next, err := p.body(until...)
		if err != nil {
			return nil, err
		}
		n.tests, n.bodies = append(n.tests, test), append(n.bodies, nodes)
		if word = next; word == "endif" {
			return n, p.blockEnd()
		}
	}
}

func (p *parser) targets() ([]string, error) {
	var names []string
	bracket := p.skipOp("(")
	for {
		word, err := p.wantName()
		if err != nil {
			return nil, err
		}
		names = append(names, word)
		if !p.skipOp(",") {
			break
		}
	}
	if bracket {
		return names, p.wantOp(")")
	}
	return names, nil
}

func (p *parser) loop() (node, error) {
	n := &forNode{}
	var err error
	if n.targets, err = p.targets(); err != nil {
		return nil, err
	}
	if !p.skipName("in") {
		return nil, p.fail("expected \"in\" instead of %q", p.peek().Text)
	}
	// An inline if is not part of what a loop runs over: the word belongs to the loop.
	if n.over, err = p.or(); err != nil {
		return nil, err
	}
	if p.isOp(",") {
		return nil, p.unknown("loop over", ",")
	}
	if p.skipName("if") {
		if n.only, err = p.expr(); err != nil {
			return nil, err
		}
	}
	n.recursive = p.skipName("recursive")
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	p.loops++
	body, word, err := p.body("endfor", "else")
	p.loops--
	if err != nil {
		return nil, err
	}
	n.body = body
	if word == "else" {
		n.otherwise, err = p.closed("endfor")
		return n, err
	}
	return n, p.blockEnd()
}

func (p *parser) set() (node, error) {
	if t := p.peek(); t.Kind == jinjalex.Name && p.tokens[p.at+1].Kind == jinjalex.Op && p.tokens[p.at+1].Text == "." {
		p.at += 2
		attr, err := p.wantName()
		if err != nil {
			return nil, err
		}
		return p.assigned(&setNode{targets: []string{t.Text}, attr: attr})
	}
	names, err := p.targets()
	if err != nil {
		return nil, err
	}
	return p.assigned(&setNode{targets: names})
}

func (p *parser) assigned(n *setNode) (node, error) {
	var err error
	if p.skipOp("=") {
		if n.value, err = p.tuple(); err != nil {
			return nil, err
		}
		if p.markup(n.value) {
			p.safe[n.targets[0]] = true
		}
		return n, p.blockEnd()
	}
	if len(n.targets) != 1 {
		return nil, p.fail("expected \"=\" instead of %q", p.peek().Text)
	}
	if n.filter, err = p.filters(nil); err != nil {
		return nil, err
	}
	n.body, err = p.closed("endset")
	return n, err
}

// parameters reads a macro's; nil where there are no brackets.
func (p *parser) parameters(m *macroNode) error {
	if err := p.wantOp("("); err != nil {
		return err
	}
	for !p.skipOp(")") {
		if len(m.names) > 0 {
			if err := p.wantOp(","); err != nil {
				return err
			}
		}
		word, err := p.wantName()
		if err != nil {
			return err
		}
		var fallback expr
		if p.skipOp("=") {
			if fallback, err = p.expr(); err != nil {
				return err
			}
		}
		m.names, m.fallbacks = append(m.names, word), append(m.fallbacks, fallback)
	}
	return nil
}

// macroBody reads it; loops around a macro are not its own.
func (p *parser) macroBody(end string) ([]node, error) {
	loops := p.loops
	p.loops = 0
	p.macros++
	nodes, err := p.closed(end)
	p.macros--
	p.loops = loops
	return nodes, err
}

func (p *parser) macro() (node, error) {
	word, err := p.wantName()
	if err != nil {
		return nil, err
	}
	m := &macroNode{name: word}
	if err := p.parameters(m); err != nil {
		return nil, err
	}
	m.body, err = p.macroBody("endmacro")
	return m, err
}

func (p *parser) callBlock() (node, error) {
	m := &macroNode{name: "caller"}
	if p.isOp("(") {
		if err := p.parameters(m); err != nil {
			return nil, err
		}
	}
	e, err := p.unary(false)
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callExpr)
	if !ok {
		return nil, p.fail("expected a call")
	}
	m.body, err = p.macroBody("endcall")
	return &callNode{call, m}, err
}

func (p *parser) filterBlock() (node, error) {
	p.at-- // the first filter stands where its "|" would
	p.tokens[p.at] = jinjalex.Token{Kind: jinjalex.Op, Text: "|", Line: p.peek().Line}
	f, err := p.filters(nil)
	if err != nil {
		return nil, err
	}
	n := &filterNode{filter: f}
	n.body, err = p.closed("endfilter")
	return n, err
}

func (p *parser) with() (node, error) {
	n := &withNode{}
	for p.peek().Kind != jinjalex.BlockEnd {
		if len(n.names) > 0 {
			if err := p.wantOp(","); err != nil {
				return nil, err
			}
		}
		word, err := p.wantName()
		if err != nil {
			return nil, err
		}
		if err := p.wantOp("="); err != nil {
			return nil, err
		}
		value, err := p.expr()
		if err != nil {
			return nil, err
		}
		n.names, n.values = append(n.names, word), append(n.values, value)
	}
	var err error
	n.body, err = p.closed("endwith")
	return n, err
}
