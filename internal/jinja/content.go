package jinja

// WalksContent is whether the template has a loop over the content of a message. vLLM then hands it every content as a list of parts, and
// otherwise as one string; the rule is that of its renderer: names that are set to messages, loops over those, and loops over the content
// of what such a loop names, wherever they stand.
func (t *Template) WalksContent() bool {
	var sets []*setNode
	var loops []*forNode
	collect(t.nodes, &sets, &loops)
	lists := map[string]bool{"messages": true}
	for grew := true; grew; {
		grew = false
		for _, s := range sets {
			if name, ok := accessed(s.value, ""); ok && lists[name] && s.attr == "" && len(s.targets) == 1 && !lists[s.targets[0]] {
				lists[s.targets[0]] = true
				grew = true
			}
		}
	}
	items := map[string]bool{}
	for _, l := range loops {
		if name, ok := accessed(l.over, ""); ok && lists[name] && len(l.targets) == 1 {
			items[l.targets[0]] = true
		}
	}
	for _, l := range loops {
		if name, ok := accessed(l.over, "content"); ok && items[name] {
			return true
		}
	}
	return false
}

// accessed is the name that an expression is, or whose key it is, behind filters, tests and slices.
func accessed(e expr, key string) (string, bool) {
	switch e := e.(type) {
	case *filterExpr:
		return accessed(e.of, key)
	case *testExpr:
		return accessed(e.of, key)
	case *sliceExpr:
		return accessed(e.of, key)
	case *nameExpr:
		return e.name, key == ""
	case *attrExpr:
		if e.name == key {
			return accessed(e.of, "")
		}
	case *itemExpr:
		if c, ok := e.key.(*constExpr); ok && key != "" && c.value == key {
			return accessed(e.of, "")
		}
	}
	return "", false
}

func collect(nodes []node, sets *[]*setNode, loops *[]*forNode) {
	for _, n := range nodes {
		switch n := n.(type) {
		case *setNode:
			if n.value != nil {
				*sets = append(*sets, n)
			}
			collect(n.body, sets, loops)
		case *forNode:
			*loops = append(*loops, n)
			collect(n.body, sets, loops)
			collect(n.otherwise, sets, loops)
		case *ifNode:
			for _, body := range n.bodies {
				collect(body, sets, loops)
			}
		case *macroNode:
			collect(n.body, sets, loops)
		case *callNode:
			collect(n.macro.body, sets, loops)
		case *filterNode:
			collect(n.body, sets, loops)
		case *withNode:
			collect(n.body, sets, loops)
		}
	}
}
