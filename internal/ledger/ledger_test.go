package ledger

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/BOUNDS.md")

const (
	page  = "../../docs/BOUNDS.md"
	begin = "<!-- generated: make generate -->\n"
	end   = "<!-- end -->"
)

func TestThePageOfBoundsIsTheBook(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	table, tail, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no place for the table, between %q and %q", page, begin, end)
	}
	if *update {
		if err := os.WriteFile(page, []byte(head+begin+Table()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != Table() {
		t.Errorf("%s differs from the book: run make generate", page)
	}
}

func TestEveryBoundStandsInTheLedgerOnceAndInOrder(t *testing.T) {
	l := New()
	l.Set(Connections, 10, 3, 1)
	lines := l.Lines()
	if len(lines) != len(Book) || lines[0] != (Line{Name: Connections, Unit: "connections", Limit: 10, Used: 3, Refused: 1, Setting: "connections_max, ulimit -n"}) {
		t.Errorf("%d lines, the first %+v", len(lines), lines[0])
	}
	seen := map[string]bool{}
	for i, e := range Book {
		if seen[e.Name] || lines[i].Name != e.Name {
			t.Errorf("%s stands twice or out of order", e.Name)
		}
		if seen[e.Name] = true; e.Unit == "" || e.What == "" || e.Default == "" || e.Then == "" {
			t.Errorf("%s is not described: %+v", e.Name, e)
		}
	}
}
