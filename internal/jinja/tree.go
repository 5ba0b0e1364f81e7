package jinja

import "github.com/warmpath/warmpath/internal/pyvalue"

type node interface {
	exec(r *run, s *scope) (jump, error)
}

type (
	textNode   struct{ text string }
	outputNode struct{ value expr }
	jumpNode   struct{ out bool }
	ifNode     struct {
		tests  []expr // nil for else
		bodies [][]node
	}
	forNode struct {
		targets         []string
		over, only      expr
		body, otherwise []node
		recursive       bool
	}
	setNode struct {
		targets []string
		attr    string // of a namespace
		value   expr
		filter  expr // of a body; nil for none
		body    []node
	}
	macroNode struct {
		name      string
		names     []string
		fallbacks []expr
		body      []node
	}
	callNode struct {
		call  *callExpr
		macro *macroNode
	}
	filterNode struct {
		filter expr
		body   []node
	}
	withNode struct {
		names  []string
		values []expr
		body   []node
	}
)

type expr interface {
	eval(r *run, s *scope) (any, error)
}

type (
	constExpr struct{ value any }
	nameExpr  struct{ name string }
	listExpr  struct {
		items []expr
		shape pyvalue.Shape
	}
	dictExpr struct{ keys, values []expr }
	attrExpr struct {
		of   expr
		name string
	}
	itemExpr  struct{ of, key expr }
	sliceExpr struct {
		of    expr
		parts [3]expr
	}
	callExpr struct {
		of    expr
		args  []expr
		named []namedExpr
	}
	filterExpr struct {
		of    expr
		name  string
		args  []expr
		named []namedExpr
	}
	testExpr struct {
		of   expr
		name string
		args []expr
	}
	ifExpr    struct{ test, then, otherwise expr }
	logicExpr struct {
		left, right expr
		or          bool
	}
	notExpr  struct{ of expr }
	signExpr struct {
		of    expr
		minus bool
	}
	compareExpr struct {
		first expr
		ops   []string
		right []expr
	}
	binaryExpr struct {
		op                string
		left, right       expr
		rawLeft, rawRight bool // one side is what safe made, so that the other is escaped
	}
)
