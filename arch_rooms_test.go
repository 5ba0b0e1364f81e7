package warmpath_test

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestNothingIsWiredByInitAndNothingIsLeftForLater(t *testing.T) {
	unfinished := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}
	for _, s := range sources(t) {
		for _, d := range s.tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s:%d: init() runs behind the reader's back; wire it in cmd/warmpath/serve.go", s.path, s.line(f.Pos()))
			}
		}
		for i, line := range strings.Split(s.text, "\n") {
			for _, word := range unfinished {
				if strings.Contains(line, word) {
					t.Errorf("%s:%d: %s: do it or drop it", s.path, i+1, word)
				}
			}
		}
	}
}

func TestEveryRoomSaysWhatItIsForAndNamesANoun(t *testing.T) {
	said := map[string]int{}
	for _, s := range sources(t) {
		if s.room() == "" || s.test {
			continue
		}
		if slices.Contains([]string{"util", "utils", "common", "helpers", "pkg", "types", "misc", "shared"}, s.room()) {
			t.Errorf("%s: %s names nothing", s.path, s.room())
		}
		said[s.room()] += 0
		if s.tree.Doc != nil {
			said[s.room()]++
		}
	}
	for room, comments := range said {
		if comments != 1 {
			t.Errorf("internal/%s has %d package comments, want one", room, comments)
		}
	}
}

func TestRoomsThatStartGoroutinesLookForLeaks(t *testing.T) {
	starts, looks := map[string]string{}, map[string]bool{}
	for _, s := range sources(t) {
		dir := path.Dir(s.path)
		if s.test {
			looks[dir] = looks[dir] || imports(s)["goleak"] != ""
			continue
		}
		ast.Inspect(s.tree, func(n ast.Node) bool {
			_, started := n.(*ast.GoStmt)
			if group, ok := n.(*ast.SelectorExpr); started || ok && group.Sel.Name == "Go" {
				starts[dir] = fmt.Sprintf("%s:%d", s.path, s.line(n.Pos()))
			}
			return true
		})
	}
	for dir, where := range starts {
		if !looks[dir] {
			t.Errorf("%s starts a goroutine, but no test of %s uses goleak", where, dir)
		}
	}
}
