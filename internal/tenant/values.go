package tenant

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// list is the members of a sequence.
func (p *parser) list(n *yaml.Node, where string, most int) []*yaml.Node {
	if n.Kind != yaml.SequenceNode || len(n.Content) > most {
		p.report(n.Line, where, "want a list of at most %d", most)
		return nil
	}
	for _, v := range n.Content {
		if v.Kind == yaml.AliasNode || v.Anchor != "" {
			p.report(v.Line, where, "anchors and references have no place here")
			return nil
		}
	}
	return n.Content
}

// texts is a list of names.
func (p *parser) texts(n *yaml.Node, where string) (all []string) {
	for _, v := range p.list(n, where, 1024) {
		all = append(all, p.text(v, where))
	}
	return all
}

// text is one name. YAML reads some names as other things: 1.5, yes, null.
func (p *parser) text(n *yaml.Node, where string) string {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Value == "" {
		p.report(n.Line, where, "want a text, in quotes where YAML takes it for something else")
		return ""
	}
	return n.Value
}

// number is a number from least to most.
func (p *parser) number(n *yaml.Node, where string, least, most float64) float64 {
	v, err := strconv.ParseFloat(n.Value, 64)
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" || err != nil:
		p.report(n.Line, where, "want a number")
	case !(v >= least && v <= most):
		p.report(n.Line, where, "%v, want %v to %v", v, least, most)
	default:
		return v
	}
	return least
}

// whole is a whole number of 0 or more.
func (p *parser) whole(n *yaml.Node, where string) int {
	v := p.number(n, where, 0, numberMax)
	if v != float64(int(v)) {
		p.report(n.Line, where, "%v, want a whole number", v)
	}
	return int(v)
}
