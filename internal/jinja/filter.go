package jinja

import (
	"slices"

	"github.com/warmpath/warmpath/internal/jinjalex"
	"github.com/warmpath/warmpath/internal/jinjalib"
)

// filters reads the filters and tests behind an expression; of is nil for those of a block, which get its text.
func (p *parser) filters(of expr) (expr, error) {
	e := of
	for {
		var err error
		switch {
		case p.skipOp("|"):
			e, err = p.filter(e)
		case of != nil && p.skipName("is"):
			e, err = p.test(e)
		case of != nil && p.isOp("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) filter(of expr) (expr, error) {
	word, err := p.wantName()
	if err != nil {
		return nil, err
	}
	if !jinjalib.IsFilter(word) {
		return nil, p.unknown("filter", word)
	}
	f := &filterExpr{of: of, name: word}
	if p.isOp("(") {
		if f.args, f.named, err = p.arguments(); err != nil {
			return nil, err
		}
	}
	return f, p.applied(f)
}

// applied checks the filters and tests that are given by name to select, map and their like.
func (p *parser) applied(f *filterExpr) error {
	at := map[string]int{"select": 0, "reject": 0, "map": 0, "selectattr": 1, "rejectattr": 1}
	i, ok := at[f.name]
	if !ok || len(f.args) <= i {
		return nil
	}
	c, _ := f.args[i].(*constExpr)
	if c == nil {
		return p.unknown("a name that is computed in filter", f.name)
	}
	word, _ := c.value.(string)
	if f.name == "map" && !jinjalib.IsFilter(word) {
		return p.unknown("filter", word)
	}
	if f.name != "map" && !jinjalib.IsTest(word) {
		return p.unknown("test", word)
	}
	return nil
}

func (p *parser) test(of expr) (expr, error) {
	negated := p.skipName("not")
	word, err := p.wantName()
	if err != nil {
		return nil, err
	}
	if !jinjalib.IsTest(word) {
		return nil, p.unknown("test", word)
	}
	t := &testExpr{of: of, name: word}
	switch k := p.peek(); {
	case p.isOp("("):
		if t.args, _, err = p.arguments(); err != nil {
			return nil, err
		}
	case k.Kind == jinjalex.Str || k.Kind == jinjalex.Integer || k.Kind == jinjalex.Float || p.isOp("[") || p.isOp("{") ||
		k.Kind == jinjalex.Name && !slices.Contains([]string{"else", "or", "and", "is", "if", "not", "in", "recursive"}, k.Text):
		arg, err := p.primary()
		if err != nil {
			return nil, err
		}
		if arg, err = p.postfix(arg); err != nil {
			return nil, err
		}
		t.args = []expr{arg}
	}
	if negated {
		return &notExpr{t}, nil
	}
	return t, nil
}
