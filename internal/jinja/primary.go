package jinja

import (
	"fmt"
	"strconv"

	"github.com/warmpath/warmpath/internal/jinjalex"
	"github.com/warmpath/warmpath/internal/jinjalib"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

func (p *parser) primary() (expr, error) {
	t := p.next()
	switch t.Kind {
	case jinjalex.Name:
		switch t.Text {
		case "true", "True":
			return &constExpr{true}, nil
		case "false", "False":
			return &constExpr{false}, nil
		case "none", "None":
			return &constExpr{nil}, nil
		}
		p.dated = p.dated || t.Text == "strftime_now"
		return &nameExpr{t.Text}, nil
	case jinjalex.Str:
		text := t.Text
		for p.peek().Kind == jinjalex.Str {
			text += p.next().Text
		}
		return &constExpr{text}, nil
	case jinjalex.Integer:
		n, err := strconv.ParseInt(t.Text, 10, 64)
		if err != nil {
			return nil, p.unknown("number", t.Text)
		}
		return &constExpr{n}, nil
	case jinjalex.Float:
		f, err := strconv.ParseFloat(t.Text, 64)
		if err != nil {
			return nil, p.unknown("number", t.Text)
		}
		return &constExpr{f}, nil
	case jinjalex.Op:
		switch t.Text {
		case "(":
			return p.brackets()
		case "[":
			items, err := p.items("]")
			return &listExpr{items, pyvalue.AsList}, err
		case "{":
			return p.dict()
		}
	}
	p.at--
	return nil, p.fail("unexpected %q", t.Text)
}

func (p *parser) brackets() (expr, error) {
	if p.skipOp(")") {
		return &listExpr{nil, pyvalue.AsTuple}, nil
	}
	e, err := p.tuple()
	if err != nil {
		return nil, err
	}
	return e, p.wantOp(")")
}

func (p *parser) items(end string) ([]expr, error) {
	var items []expr
	for !p.skipOp(end) {
		if len(items) > 0 {
			if err := p.wantOp(","); err != nil {
				return nil, err
			}
			if p.skipOp(end) {
				break
			}
		}
		item, err := p.expr()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func (p *parser) dict() (expr, error) {
	d := &dictExpr{}
	for !p.skipOp("}") {
		if len(d.keys) > 0 {
			if err := p.wantOp(","); err != nil {
				return nil, err
			}
			if p.skipOp("}") {
				break
			}
		}
		key, err := p.expr()
		if err != nil {
			return nil, err
		}
		if c, ok := key.(*constExpr); ok {
			if _, text := c.value.(string); !text {
				return nil, p.unknown("a key of a dict that is no string:", fmt.Sprint(c.value))
			}
		}
		if err := p.wantOp(":"); err != nil {
			return nil, err
		}
		value, err := p.expr()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, key), append(d.values, value)
	}
	return d, nil
}

func (p *parser) postfix(e expr) (expr, error) {
	for {
		var err error
		switch {
		case p.skipOp("."):
			t := p.next()
			switch t.Kind {
			case jinjalex.Name:
				e = &attrExpr{e, t.Text}
			case jinjalex.Integer:
				n, _ := strconv.ParseInt(t.Text, 10, 64)
				e = &itemExpr{e, &constExpr{n}}
			default:
				return nil, p.fail("expected a name behind the dot")
			}
		case p.skipOp("["):
			e, err = p.subscript(e)
		case p.isOp("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) subscript(of expr) (expr, error) {
	var parts [3]expr
	colons := 0
	for !p.skipOp("]") {
		if p.skipOp(":") {
			if colons++; colons > 2 {
				return nil, p.fail("too many colons")
			}
			continue
		}
		if parts[colons] != nil {
			return nil, p.unknown("subscript", p.peek().Text)
		}
		var err error
		if parts[colons], err = p.expr(); err != nil {
			return nil, err
		}
	}
	if colons > 0 {
		return &sliceExpr{of, parts}, nil
	}
	if parts[0] == nil {
		return nil, p.fail("expected a subscript")
	}
	return &itemExpr{of, parts[0]}, nil
}

func (p *parser) call(of expr) (expr, error) {
	if attr, ok := of.(*attrExpr); ok && !callable[attr.name] && !jinjalib.IsMethod(attr.name) {
		return nil, p.unknown("method", attr.name)
	}
	args, named, err := p.arguments()
	return &callExpr{of, args, named}, err
}

// callable are attributes that can be called besides the methods of values.
var callable = map[string]bool{"cycle": true, "changed": true}

type namedExpr struct {
	name  string
	value expr
}

func (p *parser) arguments() (args []expr, named []namedExpr, err error) {
	if err := p.wantOp("("); err != nil {
		return nil, nil, err
	}
	for first := true; !p.skipOp(")"); first = false {
		if !first {
			if err := p.wantOp(","); err != nil {
				return nil, nil, err
			}
			if p.skipOp(")") {
				break
			}
		}
		if p.isOp("*") || p.isOp("**") {
			return nil, nil, p.unknown("arguments by", p.peek().Text)
		}
		key := ""
		if t := p.peek(); t.Kind == jinjalex.Name && p.tokens[p.at+1].Kind == jinjalex.Op && p.tokens[p.at+1].Text == "=" {
			key = t.Text
			p.at += 2
		}
		value, err := p.expr()
		switch {
		case err != nil:
			return nil, nil, err
		case key != "":
			named = append(named, namedExpr{key, value})
		case len(named) > 0:
			return nil, nil, p.fail("an argument without a name behind one with a name")
		default:
			args = append(args, value)
		}
	}
	return args, named, nil
}
