package jinja

import (
	"fmt"
	"strconv"

	"github.com/warmpath/warmpath/internal/jinjalex"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

// nestingMax bounds how deep a template's statements and expressions nest.
const nestingMax = 200

type parser struct {
	tokens  []jinjalex.Token
	at      int
	nesting int
	macros  int // how many macros are around: caller, varargs and kwargs mean something there
	loops   int
	dated   bool
	safe    map[string]bool // names that were set to what safe made
}

func (p *parser) peek() jinjalex.Token { return p.tokens[p.at] }

func (p *parser) next() jinjalex.Token {
	t := p.tokens[p.at]
	if t.Kind != jinjalex.EOF {
		p.at++
	}
	return t
}

func (p *parser) fail(format string, args ...any) error {
	return &jinjalex.SyntaxError{Line: p.peek().Line, What: fmt.Sprintf(format, args...)}
}

func (p *parser) unknown(kind, what string) error {
	return &jinjalex.SyntaxError{Line: p.peek().Line, What: kind + " " + strconv.Quote(what), Unknown: true}
}

func (p *parser) isOp(text string) bool {
	t := p.peek()
	return t.Kind == jinjalex.Op && t.Text == text
}
func (p *parser) isName(text string) bool {
	t := p.peek()
	return t.Kind == jinjalex.Name && t.Text == text
}

func (p *parser) skipOp(text string) bool {
	if !p.isOp(text) {
		return false
	}
	p.at++
	return true
}

func (p *parser) skipName(text string) bool {
	if !p.isName(text) {
		return false
	}
	p.at++
	return true
}

func (p *parser) wantOp(text string) error {
	if !p.skipOp(text) {
		return p.fail("expected %q instead of %q", text, p.peek().Text)
	}
	return nil
}

func (p *parser) wantName() (string, error) {
	t := p.next()
	if t.Kind != jinjalex.Name {
		p.at--
		return "", p.fail("expected a name instead of %q", t.Text)
	}
	return t.Text, nil
}

// deeper counts one more level; the returned func leaves it.
func (p *parser) deeper() (func(), error) {
	if p.nesting++; p.nesting > nestingMax {
		return nil, p.fail("nested deeper than %d levels", nestingMax)
	}
	return func() { p.nesting-- }, nil
}

// tuple reads expressions with commas between them; a single one without a comma is itself.
func (p *parser) tuple() (expr, error) {
	first, err := p.expr()
	if err != nil || !p.isOp(",") {
		return first, err
	}
	items := []expr{first}
	for p.skipOp(",") && !p.ends() {
		item, err := p.expr()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return &listExpr{items, pyvalue.AsTuple}, nil
}

func (p *parser) ends() bool {
	k := p.peek().Kind
	return k == jinjalex.VarEnd || k == jinjalex.BlockEnd || k == jinjalex.EOF || p.isOp(")") || p.isOp("]") || p.isOp("}")
}

// expr is an expression with inline if, the weakest of the operators.
func (p *parser) expr() (expr, error) {
	leave, err := p.deeper()
	if err != nil {
		return nil, err
	}
	defer leave()
	e, err := p.or()
	if err != nil {
		return nil, err
	}
	for p.skipName("if") {
		test, err := p.or()
		if err != nil {
			return nil, err
		}
		var other expr
		if p.skipName("else") {
			if other, err = p.expr(); err != nil {
				return nil, err
			}
		}
		e = &ifExpr{test, e, other}
	}
	return e, nil
}

func (p *parser) or() (expr, error) {
	left, err := p.and()
	for err == nil && p.skipName("or") {
		var right expr
		right, err = p.and()
		left = &logicExpr{left, right, true}
	}
	return left, err
}

func (p *parser) and() (expr, error) {
	left, err := p.not()
	for err == nil && p.skipName("and") {
		var right expr
		right, err = p.not()
		left = &logicExpr{left, right, false}
	}
	return left, err
}

func (p *parser) not() (expr, error) {
	if p.isName("not") {
		leave, err := p.deeper()
		if err != nil {
			return nil, err
		}
		defer leave()
		p.at++
		e, err := p.not()
		return &notExpr{e}, err
	}
	return p.compare()
}

func (p *parser) compare() (expr, error) {
	first, err := p.binary(0)
	if err != nil {
		return nil, err
	}
	chain := &compareExpr{first: first}
	for {
		t, o := p.peek(), ""
		switch {
		case t.Kind == jinjalex.Op && (t.Text == "==" || t.Text == "!=" || t.Text == "<" || t.Text == ">" || t.Text == "<=" || t.Text == ">="):
			o = t.Text
			p.at++
		case p.skipName("in"):
			o = "in"
		case p.isName("not") && p.tokens[p.at+1].Kind == jinjalex.Name && p.tokens[p.at+1].Text == "in":
			o = "not in"
			p.at += 2
		case len(chain.ops) == 0:
			return first, nil
		default:
			return chain, nil
		}
		right, err := p.binary(0)
		if err != nil {
			return nil, err
		}
		chain.ops, chain.right = append(chain.ops, o), append(chain.right, right)
	}
}

// levels are the binary operators, the weakest first: joining with "~" is tighter than adding.
var levels = [][]string{{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}}

func (p *parser) binary(level int) (expr, error) {
	if level == len(levels) {
		return p.unary(true)
	}
	left, err := p.binary(level + 1)
	for err == nil {
		o := ""
		for _, candidate := range levels[level] {
			if p.skipOp(candidate) {
				o = candidate
				break
			}
		}
		if o == "" {
			break
		}
		var right expr
		right, err = p.binary(level + 1)
		if err != nil {
			break
		}
		b := &binaryExpr{op: o, left: left, right: right}
		if o != "~" && (p.markup(left) || p.markup(right)) {
			if b.rawLeft, b.rawRight = raw(left), raw(right); o != "+" || !b.rawLeft && p.markup(left) || !b.rawRight && p.markup(right) {
				return nil, p.unknown("operator at the filter safe:", o)
			}
		}
		left = b
	}
	return left, err
}

func (p *parser) unary(filters bool) (expr, error) {
	if p.isOp("-") || p.isOp("+") {
		leave, err := p.deeper()
		if err != nil {
			return nil, err
		}
		defer leave()
		minus := p.next().Text == "-"
		e, err := p.unary(false)
		if err != nil {
			return nil, err
		}
		e = &signExpr{e, minus}
		if filters {
			return p.filters(e)
		}
		return e, nil
	}
	e, err := p.primary()
	if err != nil {
		return nil, err
	}
	if e, err = p.postfix(e); err != nil || !filters {
		return e, err
	}
	return p.filters(e)
}
